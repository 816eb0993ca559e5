"""What a scheduler has done, as it reports."""

from managers.messages.figures import ABORT_CAUSES
from srt.observability.histogram import SPAN_BOUNDS, distribution
from tests.managers.scheduler.world import World, greedy


def aborts(world: World) -> dict[str, int]:
    counted = world.scheduler._keeper.work.figures().aborts
    return {cause: num for cause, num in zip(ABORT_CAUSES, counted, strict=True) if num}


def test_tokens_are_counted_as_computed_cached_and_generated() -> None:
    world = World()
    world.add("a common beginning, one", greedy(4))
    world.run()
    world.add("a common beginning, two", greedy(4))
    world.run()
    figures = world.scheduler._keeper.work.figures()
    assert figures.num_decode_tokens == 8
    assert figures.num_cached_tokens == len("a common beginning, ")
    assert figures.num_prefill_tokens == len("a common beginning, one") + len("two")


def test_waiting_is_timed_until_the_first_step_and_once() -> None:
    world = World(max_running_requests=1)
    first, second = world.add("first", greedy(3)), world.add("second", greedy(3))
    world.run()
    read = distribution(SPAN_BOUNDS, world.scheduler._keeper.work.figures().queue_time)
    assert sum(read.counts) == 2
    timings = [world.heard[request].finished.timing for request in (first, second)]  # type: ignore[union-attr]
    assert timings[0] is not None
    assert timings[1] is not None
    assert timings[0].queue_s == 0.0
    assert timings[1].queue_s > 0.0


def test_a_timing_adds_up_to_the_time_from_arrival_to_the_end() -> None:
    world = World(chunk_size=4)
    begun = world.clock()
    request = world.add("twelve chars", greedy(5))
    world.run()
    told = world.heard[request].finished
    assert told is not None
    timing = told.timing
    assert timing is not None
    assert timing.prefill_s > 0.0
    assert timing.decode_s > 0.0
    end = timing.arrived + timing.queue_s + timing.prefill_s + timing.decode_s
    assert begun < timing.arrived <= end <= world.clock()


def test_every_end_before_its_time_has_a_cause() -> None:
    world = World(max_running_requests=1, max_queued_requests=0)
    running = world.add("runs", greedy(50))
    world.step()
    world.add("no room in the queue", greedy(3))
    world.step()
    world.abort(running)
    world.run()
    late = world.add("late", greedy(50), timeout_s=0.05)
    world.run()
    world.add([], greedy(3))
    world.run()
    assert world.heard[late].finished is not None
    assert aborts(world) == {"client_left": 1, "queue_full": 1, "request_timeout": 1, "invalid": 1}


def test_what_had_to_give_way_is_counted_with_its_tokens() -> None:
    world = World(capacity=48, conservativeness=0.0)
    for letter in "abc":
        world.add(letter * 8, greedy(20))
    world.run()
    figures = world.scheduler._keeper.work.figures()
    assert figures.num_retractions == world.stats().num_retractions > 0
    assert figures.num_retracted_input_tokens == 8 * figures.num_retractions
    assert figures.num_retracted_output_tokens > 0
