"""What every metric owes its reader."""

import re
from collections import Counter

import pytest

import write_metric_docs
from srt.observability.metric_catalogue import METRICS, Metric


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_follows_prometheus_rules(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_it_is_explained_in_a_sentence(metric: Metric) -> None:
    assert re.fullmatch(r"[A-Z0-9][^\n]*\.", metric.help)


def test_no_two_have_the_same_name() -> None:
    for prefix in ("sglang:", "lockstep_"):
        names = Counter(metric.full_name(prefix) for metric in METRICS)
        assert [name for name, count in names.items() if count > 1] == []


def test_the_page_is_up_to_date() -> None:
    assert write_metric_docs.PAGE.read_text(encoding="utf-8") == write_metric_docs.render_page()
