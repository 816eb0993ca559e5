"""Where time goes, by the server's sums and the clients' clocks."""

import pytest

from bench_client import Answer
from split_latency import SegmentSums, Split, parse_sums, render, split
from srt.observability.exposition import Family, Sample
from srt.observability.exposition import render as render_page
from srt.observability.histogram import Distribution
from srt.observability.metric_catalogue import SEGMENT
from srt.observability.request_timing import SEGMENTS


def page(seconds: float, num_requests: int) -> str:
    """What a server says that had so many requests with so many seconds in each segment."""
    value = Distribution((1.0,), [num_requests, 0], seconds)
    samples = [Sample({"model_name": "a", "segment": name}, value) for name in SEGMENTS]
    return render_page([Family(SEGMENT, samples)], "sglang:")


def answers(*seconds: float) -> list[Answer]:
    return [Answer(sent_at=10.0, ended_at=10.0 + wall_s) for wall_s in seconds]


def test_a_run_is_what_came_between_two_looks() -> None:
    sums = parse_sums(page(7.0, 12)).since(parse_sums(page(5.0, 10)))
    assert sums == SegmentSums(dict.fromkeys(SEGMENTS, 2.0), 2)


def test_a_server_without_segments_is_named() -> None:
    with pytest.raises(ValueError, match="segment receive"):
        parse_sums("")


def test_the_split_is_a_mean_and_knows_how_far_it_is_from_the_clients_time() -> None:
    result = split(SegmentSums(dict.fromkeys(SEGMENTS, 0.2), 2), answers(1.1, 0.9), 2)
    assert result.segments == dict.fromkeys(SEGMENTS, 0.1)
    assert result.wall_s == pytest.approx(1.0)
    assert result.error == pytest.approx(len(SEGMENTS) * 0.1 - 1.0)


def test_shares_add_up_to_the_segments() -> None:
    result = Split(1, 1, {name: 0.1 for name in SEGMENTS}, 1.0)
    assert set(result.shares) == {
        *("front end and transport", "queue", "prefill", "decode", "HTTP and detokenise")
    }
    assert sum(result.shares.values()) == pytest.approx(0.1 * len(SEGMENTS))
    assert "front end and transport      500.00 ms   50.0%" in render(result)


def test_requests_of_somebody_else_spoil_a_run() -> None:
    with pytest.raises(ValueError, match="answered 3 requests, these were 2"):
        split(SegmentSums(dict.fromkeys(SEGMENTS, 0.2), 3), answers(1.0, 1.0), 1)
