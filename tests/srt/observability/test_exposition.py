"""What Prometheus reads, judged by its own client's parser."""

from prometheus_client.parser import text_string_to_metric_families

from srt.observability.exposition import Family, Sample, render
from srt.observability.histogram import Distribution
from srt.observability.metric_catalogue import CACHE_HIT_RATE, REQUESTS, SEGMENT, Metric

LABELS = {"model_name": "tiny", "engine_type": "unified", "is_streaming": "true", "segment": "queue"}


def values(page: str) -> dict[str, float]:
    """Every series' value, by name and, of buckets, by bound."""
    return {
        sample.name + (f" {sample.labels['le']}" if "le" in sample.labels else ""): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_a_counter() -> None:
    assert values(render([Family(REQUESTS, [Sample(LABELS, 7)])], "sglang:")) == {
        "sglang:num_requests_total": 7
    }


def test_a_histograms_buckets_are_cumulative_and_end_with_all() -> None:
    page = render([Family(SEGMENT, [Sample(LABELS, Distribution((0.1, 1.0), [2, 0, 3], 9.25))])], "sglang:")
    assert values(page) == {
        "lockstep_request_segment_seconds_bucket 0.1": 2,
        "lockstep_request_segment_seconds_bucket 1.0": 2,
        "lockstep_request_segment_seconds_bucket +Inf": 5,
        "lockstep_request_segment_seconds_count": 5,
        "lockstep_request_segment_seconds_sum": 9.25,
    }


def test_a_label_may_hold_anything() -> None:
    name = 'a "model"\nof\\two lines'
    page = render([Family(REQUESTS, [Sample(LABELS | {"model_name": name}, 1)])], "sglang:")
    (family,) = text_string_to_metric_families(page)
    assert family.samples[0].labels["model_name"] == name


def test_labels_that_the_catalogue_does_not_name_are_not_shown() -> None:
    metric = Metric("x", "gauge", "An x.", ("segment",))
    assert 'sglang:x{segment="queue"} 1\n' in render([Family(metric, [Sample(LABELS, 1)])], "sglang:")


def test_a_metric_without_series_is_left_out() -> None:
    assert render([Family(CACHE_HIT_RATE, [])], "sglang:") == ""
