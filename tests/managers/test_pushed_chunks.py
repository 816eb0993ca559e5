"""The short way of a stream's tokens: pushed where they arrive, instead of waking who waits for them."""

import asyncio
import itertools
from dataclasses import dataclass, field

import pytest

from managers.open_requests import PIECES_A_TURN
from managers.request_state import RequestState
from srt.engine_client import FinishReason, GenerateChunk
from srt.errors import RequestFailed
from tests.managers.front import (
    LENGTH,
    World,
    collect_text,
    last_word,
    new_world,
    text_batch,
    until,
    until_waiting,
)

pytestmark = pytest.mark.anyio


@dataclass
class Sink:
    """Keeps what it is given."""

    is_open: bool = True
    error: Exception | None = None
    texts: list[str] = field(default_factory=list)

    def is_ready(self) -> bool:
        return self.is_open

    def push(self, chunks: list[GenerateChunk]) -> None:
        if self.error is not None:
            raise self.error
        self.texts += [chunk.text for chunk in chunks]


async def begin(world: World, sink: Sink) -> tuple[RequestState, int, asyncio.Task[str]]:
    """An answer that has begun and whose reader, which offers `sink`, waits for more."""
    request = await world.start()
    request_id = world.requests[-1].request_id
    await world.text(request_id, "a")
    await anext(request)
    request.push_to(sink)
    reader = asyncio.create_task(collect_text(request))
    await until_waiting(request)
    return request, request_id, reader


async def test_the_middle_is_pushed_and_the_reader_gets_beginning_and_end() -> None:
    async with new_world() as world:
        request, sink = await world.start(), Sink()
        request.push_to(sink)
        (message,) = world.requests
        reader = asyncio.create_task(collect_text(request))
        await until_waiting(request)
        await world.text(message.request_id, "a")
        await until_waiting(request)
        await world.text(message.request_id, "b")
        await world.text(message.request_id, "c")
        await world.text(message.request_id, "d", finish=LENGTH)
        assert (await reader, sink.texts) == ("ad", ["b", "c"])


async def test_what_the_sink_is_not_ready_for_the_reader_gets() -> None:
    async with new_world() as world:
        sink = Sink()
        request, request_id, reader = await begin(world, sink)
        sink.is_open = False
        await world.text(request_id, "b")
        await until_waiting(request)
        sink.is_open = True
        await world.text(request_id, "c")
        await world.text(request_id, "d", finish=LENGTH)
        assert (await reader, sink.texts) == ("bd", ["c"])


async def test_a_reader_that_is_busy_finds_everything_in_order_and_nothing_is_pushed_past_it() -> None:
    async with new_world() as world:
        request, sink = await world.start(), Sink()
        request.push_to(sink)
        (message,) = world.requests
        for character in "abc":
            await world.text(message.request_id, character)
        (chunk,) = await anext(request)
        await world.text(message.request_id, "d")
        assert (chunk.text, sink.texts) == ("abc", [])
        (chunk,) = await anext(request)
        assert (chunk.text, sink.texts) == ("d", [])


async def test_a_choice_that_ends_before_the_others_is_pushed_and_the_last_is_not() -> None:
    async with new_world() as world:
        request, sink = await world.start(n=2), Sink()
        first, second = (message.request_id for message in world.requests)
        await world.text(first, "a")
        await anext(request)
        request.push_to(sink)
        reader = asyncio.create_task(collect_text(request))
        await until_waiting(request)
        await world.text(first, "b", finish=LENGTH)
        await world.text(second, "c", finish=LENGTH)
        assert (await reader, sink.texts) == ("c", ["b"])


async def test_a_sink_that_fails_fails_its_own_request_and_no_other() -> None:
    async with new_world() as world:
        _, broken_id, broken = await begin(world, Sink(error=ValueError("no such event")))
        _, sound_id, sound = await begin(world, Sink())
        for request_id in (broken_id, sound_id):
            await world.text(request_id, "b")
        await world.text(sound_id, "c", finish=LENGTH)
        with pytest.raises(ValueError, match="no such event"):
            await broken
        assert await sound == "c"


async def test_an_error_is_the_readers_behind_all_that_was_pushed() -> None:
    async with new_world() as world:
        sink = Sink()
        _, request_id, reader = await begin(world, sink)
        await world.text(request_id, "b")
        await world.text(request_id, "", finish=FinishReason(type="abort", message="broken", status_code=500))
        with pytest.raises(RequestFailed, match="broken"):
            await reader
        assert sink.texts == ["b"]


async def test_what_a_process_that_is_late_finds_together_is_pushed_together_and_counted() -> None:
    async with new_world() as world:
        sink = Sink()
        _, request_id, reader = await begin(world, sink)
        await world.say(*(text_batch({request_id: text}) for text in "bcd"))
        await world.text(request_id, "e", finish=LENGTH)
        assert (await reader, sink.texts) == ("e", ["bcd"])
        assert [state["num_coalesced_chunks"] for state in world.manager.worker_states()] == [2]


async def test_a_step_for_many_streams_lets_others_run_in_between_and_nothing_is_lost_or_doubled() -> None:
    async with new_world() as world:
        sinks = [Sink() for _ in range(3 * PIECES_A_TURN)]
        begun = [await begin(world, sink) for sink in sinks]
        turns, last_turn = [0], asyncio.Event()

        async def somebody_else() -> None:
            while not last_turn.is_set():
                turns.append(sum(len(sink.texts) for sink in sinks))
                await asyncio.sleep(0)

        beside = asyncio.create_task(somebody_else())
        ids = [request_id for _, request_id, _ in begun]
        await world.say(text_batch(dict.fromkeys(ids, "b")))
        await world.say(text_batch(dict.fromkeys(ids, "c"), ends=[last_word(i, LENGTH) for i in ids]))
        assert await asyncio.gather(*(reader for *_, reader in begun)) == ["c"] * len(ids)
        last_turn.set()
        await beside
        assert [sink.texts for sink in sinks] == [["b"]] * len(ids)
        assert max(after - before for before, after in itertools.pairwise(turns)) == PIECES_A_TURN


async def test_a_front_that_stops_in_the_middle_of_a_step_still_tells_everybody() -> None:
    world = World()
    receiving = asyncio.create_task(world.manager.receive_forever())
    sinks = [Sink() for _ in range(2 * PIECES_A_TURN)]
    begun = [await begin(world, sink) for sink in sinks]
    said = text_batch({request_id: "b" for _, request_id, _ in begun})
    tasks = [asyncio.create_task(world.say(said)), *(reader for *_, reader in begun)]
    await until(lambda: any(sink.texts for sink in sinks))
    assert sum(len(sink.texts) for sink in sinks) == PIECES_A_TURN
    receiving.cancel()
    await asyncio.wait([receiving])
    assert [sink.texts for sink in sinks] == [["b"]] * len(sinks)
    for task in tasks:
        task.cancel()
    world.manager.close()
