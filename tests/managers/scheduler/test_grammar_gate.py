"""Requests wait at the door until their grammar has been read; whatever else comes passes them."""

import pytest

from managers.messages import (
    AbortRequest,
    DefineGrammar,
    ForgetGrammar,
    RequestGrammar,
    SchedulerInput,
    TokenizedRequest,
    pack_token_ids,
)
from managers.scheduler.grammar_gate import POLL_S, GrammarGate
from tests.fakes.channel import FakeChannel
from tests.managers.scheduler.world import greedy

DEFINE, FORGET = DefineGrammar(grammar_id=7, payload=b"x"), ForgetGrammar(grammar_id=7)


class Door:
    """A gate, what stands before it, and the grammars that have been read."""

    def __init__(self) -> None:
        self.inbox = FakeChannel[SchedulerInput]()
        self.read: set[int] = set()
        self.gate = GrammarGate(self.inbox, self.read.__contains__)

    def after(self, *messages: SchedulerInput) -> list[SchedulerInput]:
        """What is let in when these have come."""
        self.inbox.messages += messages
        return self.gate.receive(0.0)


def asked(request_id: int, grammar_id: int | None = 7) -> TokenizedRequest:
    return TokenizedRequest(
        request_id=request_id,
        input_ids=pack_token_ids([97]),
        sampling=greedy(3),
        stream=True,
        grammar=None if grammar_id is None else RequestGrammar(grammar_id=grammar_id),
    )


def test_who_names_a_grammar_comes_in_when_it_has_been_read_and_all_others_at_once() -> None:
    door = Door()
    assert door.after(DEFINE, asked(1), asked(2, None)) == [DEFINE, asked(2, None)]
    assert door.after(asked(3)) == []
    door.read.add(7)
    assert door.after(asked(4)) == [asked(1), asked(3), asked(4)]
    assert door.after(asked(5)) == [asked(5)]


def test_a_grammar_is_forgotten_behind_those_that_named_it() -> None:
    door = Door()
    assert door.after(DEFINE, asked(1), FORGET) == [DEFINE]
    door.read.add(7)
    assert door.after() == [asked(1), FORGET]


def test_who_is_aborted_at_the_door_comes_in_to_be_ended() -> None:
    door = Door()
    abort = AbortRequest(request_ids=[2, 9])
    door.after(DEFINE, asked(1), asked(2))
    assert door.after(abort) == [asked(2), abort]
    door.read.add(7)
    assert door.after() == [asked(1)]


def test_a_grammar_that_nobody_defined_keeps_nobody_waiting() -> None:
    assert Door().after(asked(1)) == [asked(1)]


@pytest.mark.parametrize(("is_reading", "patience_s"), [(False, 0.005), (True, POLL_S)])
def test_an_idle_leader_sleeps_on_its_socket_and_looks_up_only_while_a_grammar_is_read(
    is_reading: bool, patience_s: float
) -> None:
    door = Door()
    if is_reading:
        door.after(DEFINE)
    door.inbox.timeouts.clear()
    assert door.gate.receive(0.005) == []
    assert door.inbox.timeouts[0] == patience_s
    assert sum(door.inbox.timeouts) == pytest.approx(0.005)
