"""The instants of a request's life."""

from srt.observability.request_timing import RequestTiming


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
