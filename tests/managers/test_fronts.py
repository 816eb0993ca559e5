"""A front among several: whose requests, aborts and figures are whose. And aborts of what is not dispatched yet."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from managers.front_board import FrontBoard, FrontRow
from managers.front_place import FrontPlace
from managers.fronts import Fronts
from managers.messages import AbortByLabel, FlushCache, FlushCacheReply, FrontOrder
from tests.fakes.channel import FakeChannel
from tests.fakes.tokenizer import ByteTokenizer
from tests.managers.front import ABORTED, LENGTH, World, arriving, collect, new_world, until

pytestmark = pytest.mark.anyio


class StuckTokenizer(ByteTokenizer):
    """Never done with a prompt, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        self.let_go.wait(60)
        return super().encode(text, add_special_tokens=add_special_tokens)


@asynccontextmanager
async def stuck_world() -> AsyncIterator[World]:
    tokenizer = StuckTokenizer()
    async with new_world(tokenizer=tokenizer) as world:
        try:
            yield world
        finally:
            tokenizer.let_go.set()


def board_of(num_fronts: int) -> FrontBoard:
    return FrontBoard(memoryview(bytearray(8 * FrontRow.NUM_CELLS * num_fronts)), num_fronts)


async def test_an_abort_is_heard_at_once_though_the_tokenizer_is_busy() -> None:
    async with stuck_world() as world:
        arrival = await arriving(world, rid="a")
        world.manager.abort("a")
        request = await arrival  # the thread is still at it
        assert [chunk.finish for chunk in await collect(request)] == [ABORTED, ABORTED]
        assert world.sent == []


async def test_leaving_counts_also_behind_an_abort() -> None:
    async with stuck_world() as world:
        arrival = await arriving(world, rid="a")
        world.manager.abort("a")
        arrival.cancel()
        with pytest.raises(asyncio.CancelledError):
            await arrival


# Several processes that serve HTTP.


async def test_the_numbers_of_a_front_are_its_own() -> None:
    async with new_world(fronts=Fronts(place=FrontPlace(2, 3), board=board_of(3))) as world:
        await world.start(n=2)
        assert [message.request_id % 3 for message in world.requests] == [2, 2]
        asking = asyncio.create_task(world.manager.flush_cache())
        await until(lambda: len(world.sent) == 3)
        (question,) = (message for message in world.sent if isinstance(message, FlushCache))
        assert question.control_id % 3 == 2
        await world.say(FlushCacheReply(control_id=question.control_id, done=True))
        assert await asking is None


async def test_an_abort_by_rid_is_passed_on_for_any_front_may_have_such_a_request() -> None:
    others = FakeChannel[FrontOrder]()
    async with new_world(fronts=Fronts(place=FrontPlace(0, 2), board=board_of(2), others=[others])) as world:
        await world.start(rid="a")
        world.manager.abort("a")
        world.manager.abort_all()
        assert others.messages == [AbortByLabel(rid="a"), AbortByLabel(rid=None)]
        assert len(world.aborted_ids) == 2


async def test_what_another_front_passes_on_is_done_here_and_goes_no_further() -> None:
    others = FakeChannel[FrontOrder]()
    async with new_world(fronts=Fronts(place=FrontPlace(0, 2), board=board_of(2), others=[others])) as world:
        await world.start(rid="a")
        await world.start(rid="b")
        world.manager.abort_for_other_front("b")
        assert world.aborted_ids == [world.requests[1].request_id]
        world.manager.abort_for_other_front(None)
        assert world.aborted_ids[1:] == [message.request_id for message in world.requests]
        assert others.messages == []


async def test_draining_is_nobody_elses_business() -> None:
    others = FakeChannel[FrontOrder]()
    async with new_world(fronts=Fronts(place=FrontPlace(0, 2), board=board_of(2), others=[others])) as world:
        request = await world.start()
        draining = asyncio.create_task(world.manager.drain(0.0))
        await until(lambda: world.aborted_ids)
        await world.text(request.open_ids[0], "", finish=ABORTED)
        await draining
        assert others.messages == []


async def test_everybody_can_say_what_any_front_has_open() -> None:
    board = board_of(2)
    async with new_world(fronts=Fronts(place=FrontPlace(1, 2), board=board)) as world:
        request = await world.start(n=2)
        assert [state["num_open_answers"] for state in board.states()] == [0, 2]
        await world.text(request.open_ids[0], "x", finish=LENGTH)
        assert [state["num_open_answers"] for state in board.states()] == [0, 1]


async def test_chunks_that_had_to_join_others_are_counted() -> None:
    async with new_world() as world:
        request = await world.start()
        (request_id,) = request.open_ids
        for text in "abc":  # nobody reads
            await world.text(request_id, text)
        await world.text(request_id, "d", finish=LENGTH)
        assert [chunk.text for chunk in await collect(request)] == ["abcd"]
        assert [state["num_coalesced_chunks"] for state in world.manager.worker_states()] == [3]
