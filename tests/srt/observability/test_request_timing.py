"""The instants of a request's life."""

import asyncio

from srt.observability.request_timing import (
    SEGMENTS,
    RequestTiming,
    SchedulerTiming,
    begin_timing,
    begin_visit,
)


def test_spans_lie_between_the_instants_that_were_noted() -> None:
    instants = iter([10.0, 10.5, 12.0, 17.0])
    timing = RequestTiming(lambda: next(instants))
    timing.note_dispatched()
    timing.note_first_token()
    timing.note_finished()
    assert (timing.dispatched, timing.time_to_first_token_s, timing.duration_s) == (10.5, 2.0, 7.0)


def test_a_request_that_runs_has_lasted_until_now_and_has_no_first_token_yet() -> None:
    instants = iter([10.0, 13.0])
    timing = RequestTiming(lambda: next(instants))
    assert (timing.time_to_first_token_s, timing.duration_s) == (None, 3.0)


def timed(**instants: object) -> RequestTiming:
    """A request that was received at 10 and accepted at 11."""
    timing = RequestTiming(lambda: 11.0, 10.0)
    for name, instant in instants.items():
        setattr(timing, name, instant)
    return timing


WHOLE = {
    "templated": 12.0,
    "tokenized": 14.0,
    "dispatched": 15.0,
    "scheduler": SchedulerTiming(arrived=16.0, queue_s=2.0, prefill_s=3.0, decode_s=4.0),
    "detokenized": 26.0,
    "finished": 26.5,
    "written": 28.0,
}


def test_the_segments_of_a_whole_request_add_up_to_its_time() -> None:
    segments = timed(**WHOLE).segments()
    assert list(segments) == list(SEGMENTS)
    assert list(segments.values()) == [1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0]
    assert sum(segments.values()) == 28.0 - 10.0


def test_a_request_that_was_refused_has_the_segments_that_it_came_through() -> None:
    assert timed(templated=12.0).segments() == {"receive": 1.0, "template": 1.0}


def test_clocks_that_disagree_a_little_make_no_segment_negative() -> None:
    early = SchedulerTiming(arrived=14.9, queue_s=2.0)
    segments = timed(**WHOLE | {"scheduler": early, "detokenized": 16.0}).segments()
    assert segments["transport"] == segments["detokenize"] == 0.0
    assert sum(segments.values()) == 28.0 - 10.0


def test_what_an_http_request_asks_has_been_going_on_since_its_first_byte() -> None:
    async def visit() -> tuple[float, float]:
        begun = begin_visit(5.0)
        first, second = begin_timing(lambda: 9.0), begin_timing(lambda: 11.0)
        assert begun.timing is first
        return first.received, second.received

    assert asyncio.run(visit()) == (5.0, 11.0)
