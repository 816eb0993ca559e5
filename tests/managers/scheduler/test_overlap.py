"""What the overlapped loop may cost, and what it must not. That it changes no text, test_any_schedule.py tests."""

import pytest

from managers.messages import Shutdown, TokenizedRequest, pack_token_ids
from managers.scheduler.event_loop import HEARTBEAT_S, lead
from managers.scheduler.rank_broadcast import Alone
from srt.sampling.params import SamplingParams
from tests.managers.scheduler.solo import solo
from tests.managers.scheduler.test_event_loop import Script
from tests.managers.scheduler.world import World, greedy


def rows_computed(sampling: SamplingParams, *, overlaps: bool) -> int:
    """Rows over all steps of one request."""
    world = World(overlaps=overlaps)
    world.runner.keeps_batches = True
    request_id = world.add("hello", sampling)
    world.run()
    assert world.answer(request_id) == solo(b"hello", sampling)
    assert world.stats().memory.num_used == 0
    return sum(batch.num_rows for batch in world.runner.batches)


@pytest.mark.parametrize("max_new_tokens", [0, 1, 2, 8])
def test_an_answer_that_ends_by_its_length_costs_no_row_more(max_new_tokens: int) -> None:
    sampling = greedy(max_new_tokens, ignore_eos=True)
    assert rows_computed(sampling, overlaps=True) == rows_computed(sampling, overlaps=False)


def test_an_answer_that_ends_by_a_stop_token_costs_one_row_more() -> None:
    third = solo(b"hello", greedy(8, ignore_eos=True)).token_ids[2]
    sampling = greedy(8, ignore_eos=True, stop_token_ids=(third,))
    assert rows_computed(sampling, overlaps=True) == rows_computed(sampling, overlaps=False) + 1


def test_an_answer_that_ends_by_a_stop_string_costs_one_row_more() -> None:
    token_ids = solo(b"hello", greedy(8, ignore_eos=True)).token_ids
    letter = next(token_id for token_id in token_ids[1:] if token_id < 256)
    sampling = greedy(8, ignore_eos=True, stop=(chr(letter),))
    assert rows_computed(sampling, overlaps=True) == rows_computed(sampling, overlaps=False) + 1


def test_an_abort_while_a_step_is_in_flight_gives_the_memory_back_in_that_turn() -> None:
    world = World(overlaps=True)
    request_id = world.add("hello", greedy(50, ignore_eos=True))
    world.step()
    world.step()
    assert world.scheduler.is_in_flight
    world.abort(request_id)
    world.step()
    assert world.finish(request_id).reason.type == "abort"
    assert world.stats().memory.num_used == 0


def test_a_newcomer_gets_the_slots_of_one_that_ended_while_its_last_row_is_computed() -> None:
    third = solo(b"hello", greedy(40, ignore_eos=True)).token_ids[2]
    world = World(overlaps=True, capacity=46)
    sampling = greedy(40, ignore_eos=True, stop_token_ids=(third,))
    first, second = world.add("hello", sampling), world.add("world", greedy(40, ignore_eos=True))
    world.run()
    assert world.answer(first) == solo(b"hello", sampling)
    assert world.answer(second) == solo(b"world", greedy(40, ignore_eos=True))


def test_penalties_see_every_token_before_the_one_they_weigh() -> None:
    sampling = greedy(40, ignore_eos=True, frequency_penalty=2.0)
    assert rows_computed(sampling, overlaps=True) == rows_computed(sampling, overlaps=False)


def test_the_leader_does_not_sleep_while_a_step_is_in_flight() -> None:
    world = World(overlaps=True)
    request = TokenizedRequest(
        request_id=1, input_ids=pack_token_ids([97, 98]), sampling=greedy(2, ignore_eos=True), stream=True
    )
    inbox = Script([request], [], [], [Shutdown()])
    lead(world.scheduler, inbox, Alone(), world.outbox, world.clock)
    # Two tokens take two steps; the third turn applies the results of the second.
    assert inbox.timeouts == [0.0, 0.0, 0.0, HEARTBEAT_S]
