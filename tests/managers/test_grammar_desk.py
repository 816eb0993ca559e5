"""A front's grammars: compiled once, refused once, defined before their requests and forgotten behind them."""

import asyncio
import itertools

import pytest

from managers.grammar_desk import MAX_WAITING, REFUSED_FOR_S, GrammarDesk, GrammarPorts, RequestedGrammar
from managers.messages.to_grammar_compiler import CancelCompile, CompileGrammar, GrammarCompilerInput
from managers.messages.to_scheduler import DefineGrammar, ForgetGrammar
from managers.messages.to_tokenizer_manager import GrammarCompiled
from srt.constrained.grammar_spec import GrammarSpec
from srt.errors import InvalidRequest, QueueFull, RequestFailed, ServerNotReady
from tests.managers.front import until

pytestmark = pytest.mark.anyio


def regex(text: str, begins_after: str | None = None) -> GrammarSpec:
    return GrammarSpec(kind="regex", text=text, begins_after=begins_after)


class World:
    """A desk whose compiler is the test."""

    def __init__(self, **settings: int) -> None:
        self.asked: list[GrammarCompilerInput] = []
        self.told: list[DefineGrammar | ForgetGrammar] = []
        self.num_wakes = 0
        self.now = 100.0
        ports = GrammarPorts(compiler=self.asked.append, wake=self._wake)
        self.desk = GrammarDesk(
            ports, self.told.append, itertools.count(1), clock=lambda: self.now, **settings
        )

    def _wake(self) -> None:
        self.num_wakes += 1

    @property
    def jobs(self) -> list[CompileGrammar]:
        return [message for message in self.asked if isinstance(message, CompileGrammar)]

    async def compile(
        self, spec: GrammarSpec, payload: bytes = b"compiled", error: str = ""
    ) -> RequestedGrammar:
        """Ask, and let the compiler answer if it is asked."""
        num_jobs = len(self.jobs)
        asking = asyncio.create_task(self.desk.compile([spec]))
        await until(lambda: asking.done() or len(self.jobs) > num_jobs)
        if len(self.jobs) > num_jobs:
            self.answer(payload, error)
        (grammar,) = await asking
        assert grammar is not None
        return grammar

    def answer(self, payload: bytes = b"compiled", error: str = "") -> None:
        job_id = self.jobs[-1].job_id
        self.desk.on_compiled(GrammarCompiled(job_id=job_id, payload=payload, error=error))


async def test_a_grammar_is_compiled_once_and_defined_once_before_it_is_named() -> None:
    world = World()
    first = world.desk.name(await world.compile(regex("a")))
    again = world.desk.name(await world.compile(regex("a", begins_after="</think>")))
    assert (len(world.jobs), world.num_wakes) == (1, 1)
    assert world.told == [DefineGrammar(grammar_id=first.grammar_id, payload=b"compiled")]
    assert (again.grammar_id, first.begins_after, again.begins_after) == (first.grammar_id, None, "</think>")


async def test_two_who_want_the_same_at_once_wait_for_one_compilation() -> None:
    world = World()
    asking = [asyncio.create_task(world.desk.compile([regex("a"), None, regex("a")])) for _ in range(2)]
    await until(lambda: world.jobs)
    world.answer()
    (first, nothing, same), (other, *_) = await asyncio.gather(*asking)
    assert first is not None
    assert other is not None
    assert nothing is None
    assert first == same
    assert first.compiled is other.compiled
    assert len(world.jobs) == 1


async def test_a_bad_grammar_is_refused_at_once_for_a_while_and_then_tried_again() -> None:
    world = World()
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="no good") as refusal:
            await world.compile(regex("a"), error="no good")
        assert refusal.value.param == "regex"
    assert len(world.jobs) == 1
    world.now += REFUSED_FOR_S
    await world.compile(regex("a"))
    assert len(world.jobs) == 2


async def test_what_needs_no_compiler_to_be_refused_does_not_wake_it() -> None:
    world = World()
    for spec in (regex("a^b"), GrammarSpec(kind="json_schema", text='{"not": {}}')):
        with pytest.raises(InvalidRequest):
            await world.desk.compile([spec])
    long = GrammarSpec(kind="json_schema", text='{"not": {}, "title": "%s"}' % ("x" * 10_000))
    with pytest.raises(InvalidRequest):
        await world.desk.compile([long])
    assert (world.asked, world.num_wakes) == ([], 0)


async def test_the_last_who_leaves_ends_the_compilation() -> None:
    world = World()
    asking = [asyncio.create_task(world.desk.compile([regex("a")])) for _ in range(2)]
    await until(lambda: world.jobs)
    asking[0].cancel()
    await asyncio.wait({asking[0]})
    assert world.asked[1:] == []
    asking[1].cancel()
    await asyncio.wait({asking[1]})
    assert world.asked[1:] == [CancelCompile(job_id=world.jobs[0].job_id)]
    world.answer()  # too late, and no harm
    await world.compile(regex("a"))
    assert len(world.jobs) == 2


async def test_the_requests_own_time_limit_holds_while_it_is_compiled() -> None:
    world = World()
    with pytest.raises(RequestFailed) as refusal:
        await world.desk.compile([regex("a")], timeout_s=0.001)
    assert refusal.value.status == 504
    assert isinstance(world.asked[-1], CancelCompile)


async def test_what_was_not_wanted_for_longest_is_forgotten_and_defined_anew_when_needed() -> None:
    world = World(max_kept_bytes=20)
    first = await world.compile(regex("a"), payload=b"0123456789")
    first_id = world.desk.name(first).grammar_id
    second_id = world.desk.name(await world.compile(regex("b"), payload=b"0123456789")).grammar_id
    world.desk.name(first)  # so that the other is older
    await world.compile(regex("c"), payload=b"0123456789")
    assert world.told[2:] == [ForgetGrammar(grammar_id=second_id)]
    await world.compile(regex("d"), payload=b"0123456789")
    assert world.told[3:] == [ForgetGrammar(grammar_id=first_id)]
    # Its request was tokenised meanwhile, and is dispatched now.
    named = world.desk.name(first)
    assert named.grammar_id not in (first_id, second_id)
    assert world.told[4:] == [DefineGrammar(grammar_id=named.grammar_id, payload=b"0123456789")]


async def test_too_many_at_once_are_sent_away() -> None:
    world = World()
    asking = [asyncio.create_task(world.desk.compile([regex(f"a{i}")])) for i in range(MAX_WAITING)]
    await until(lambda: len(world.jobs) == MAX_WAITING)
    with pytest.raises(QueueFull):
        await world.desk.compile([regex("one more")])
    world.desk.fail_all(ServerNotReady("gone"))
    assert {type(error) for error in await asyncio.gather(*asking, return_exceptions=True)} == {
        ServerNotReady
    }


async def test_a_server_without_grammars_says_so() -> None:
    desk = GrammarDesk(None, lambda message: None, itertools.count(1))
    with pytest.raises(InvalidRequest, match="without grammars"):
        await desk.compile([regex("a")])


async def test_who_gets_no_answer_asks_again_and_wakes_the_compiler_again() -> None:
    world = World()
    asking = asyncio.create_task(world.desk.compile([regex("a")]))
    await until(lambda: len(world.jobs) == 2)
    assert (world.jobs[0], world.num_wakes) == (world.jobs[1], 2)
    world.answer()
    await asking
