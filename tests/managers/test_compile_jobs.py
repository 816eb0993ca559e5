"""Grammars in expendable processes: one that hangs, crashes or eats memory is its client's error and nobody else's."""

import os
import select
import signal
import time

import psutil
import pytest

from managers.compile_child import MAX_PAYLOAD_BYTES, SECONDS_PER_CPU_SECOND, CompileLimits
from managers.grammar_compiler import MAX_CHILDREN, CompileJobs
from managers.messages.to_grammar_compiler import CancelCompile, CompileGrammar
from managers.messages.to_tokenizer_manager import GrammarCompiled
from srt.constrained.grammar_spec import GrammarSpec
from srt.errors import InvalidRequest
from tests.fakes.channel import FakeChannel
from tests.fakes.clock import FakeClock

TIMEOUT_S = 10.0
# Python 3.12 warns of what is done here with care: the child touches nothing that another thread may hold.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class FakeCompiler:
    """Does what the grammar says."""

    def compile(self, spec: GrammarSpec) -> bytes:
        match spec.text:
            case "hang":
                while True:
                    signal.pause()
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "eat":
                return bytes(1 << 30)
            case "large":
                return bytes(MAX_PAYLOAD_BYTES + 1)
            case "bad":
                raise InvalidRequest("a bad one", param="ebnf")
        return spec.text.upper().encode()


class World:
    """Time stands still unless it is moved."""

    def __init__(self) -> None:
        self._others = set(psutil.Process().children())  # what earlier tests' libraries keep running
        self.clock = FakeClock()
        self.heard: FakeChannel[GrammarCompiled] = FakeChannel()
        limits = CompileLimits(timeout_s=TIMEOUT_S, memory_bytes=64 << 20)
        self.jobs = CompileJobs(FakeCompiler(), limits, self.heard, clock=self.clock)  # type: ignore[arg-type]
        self._num_jobs = 0

    def compile(self, text: str) -> int:
        self._num_jobs += 1
        self.jobs.handle(CompileGrammar(job_id=self._num_jobs, kind="ebnf", text=text))
        self.jobs.go_on()
        return self._num_jobs

    def children(self) -> set[psutil.Process]:
        """Processes that compile."""
        return set(psutil.Process().children()) - self._others

    def wait(self, count: int) -> dict[int, GrammarCompiled]:
        """The next `count` answers."""
        answers: list[GrammarCompiled] = []
        deadline = time.monotonic() + 60
        while len(answers) < count:
            assert time.monotonic() < deadline, "no answer"
            select.select(self.jobs.descriptors, [], [], 1.0)
            self.jobs.go_on()
            answers += self.heard.take()
        return {answer.job_id: answer for answer in answers}


@pytest.fixture
def world() -> World:
    return World()


def test_a_good_one_is_compiled_and_a_bad_one_explained(world: World) -> None:
    good, bad = world.compile("abc"), world.compile("bad")
    answers = world.wait(2)
    assert answers[good] == GrammarCompiled(job_id=good, payload=b"ABC")
    assert answers[bad] == GrammarCompiled(job_id=bad, error="a bad one")


@pytest.mark.parametrize(("text", "error"), [("crash", "SIGSEGV"), ("eat", "memory"), ("large", "bytes")])
def test_whatever_one_does_is_its_own_error(world: World, text: str, error: str) -> None:
    hostile, other = world.compile(text), world.compile("abc")
    answers = world.wait(2)
    assert error in answers[hostile].error
    assert answers[other].payload == b"ABC"


def test_one_that_hangs_keeps_nobody_waiting_and_is_ended_when_its_time_is_up(world: World) -> None:
    hanging = [world.compile("hang") for _ in range(MAX_CHILDREN - 1)]
    for _ in range(3):
        other = world.compile("abc")
        assert world.wait(1)[other].payload == b"ABC"
    limit_s = TIMEOUT_S * SECONDS_PER_CPU_SECOND
    assert world.jobs.wait_s(60.0) == limit_s
    world.clock.advance(limit_s)
    assert world.jobs.wait_s(60.0) == 0.0
    answers = world.wait(len(hanging))
    assert all("longer than 10 s" in answers[job_id].error for job_id in hanging)
    assert world.children() == set()


def test_who_waits_gets_the_place_of_one_that_nobody_wants_any_more(world: World) -> None:
    hanging = [world.compile("hang") for _ in range(MAX_CHILDREN)]
    waiting, given_up = world.compile("abc"), world.compile("never")
    world.jobs.handle(CancelCompile(job_id=given_up))
    world.jobs.handle(CancelCompile(job_id=hanging[0]))
    world.jobs.handle(CancelCompile(job_id=999))
    world.jobs.go_on()
    assert list(world.wait(1)) == [waiting]
    world.jobs.close()
    assert world.children() == set()


def test_a_front_that_asks_again_gets_one_answer(world: World) -> None:
    hanging = world.compile("hang")
    for job_id, text in ((hanging, "hang"), (99, "abc"), (99, "abc")):
        world.jobs.handle(CompileGrammar(job_id=job_id, kind="ebnf", text=text))
    world.jobs.go_on()
    assert list(world.wait(1)) == [99]
    assert len(world.jobs.descriptors) == 1
    world.jobs.close()
