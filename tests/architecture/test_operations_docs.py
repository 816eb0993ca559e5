"""Dashboard and alert rules ask for metrics and labels that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from srt.observability.metric_catalogue import METRICS, SGLANG_PREFIX

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations"
TESTS = Path(__file__).parents[1]
SERIES = re.compile(r"\b(?:sglang:|lockstep_)[a-z0-9_]+")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
LABELS_OF = {
    metric.full_name(SGLANG_PREFIX) + suffix: set(metric.labels) | ({"le"} if suffix == "_bucket" else set())
    for metric in METRICS
    for suffix in SUFFIXES[metric.kind]
}


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((OPERATIONS / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return read


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((OPERATIONS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def questions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (rule["expr"] for rule in rules())


@pytest.mark.parametrize("question", sorted(set(questions())))
def test_a_question_is_about_what_there_is(question: str) -> None:
    asked = SERIES.findall(question)
    assert asked
    assert [name for name in asked if name not in LABELS_OF] == []
    grouped = re.findall(r"by \(([^)]*)\)", question)
    selected = re.findall(r"(\w+)=~?\"", question)
    labels = {label.strip() for group in grouped for label in group.split(",")} | set(selected)
    for name in asked:
        assert labels <= LABELS_OF[name], name


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_with_labels_that_it_has(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    kept = re.findall(r"by \(([^)]*)\)", rule["expr"])
    (name, *_) = SERIES.findall(rule["expr"])
    assert named <= ({label.strip() for label in kept[0].split(",")} if kept else LABELS_OF[name])


def test_every_panel_has_a_place_of_its_own() -> None:
    places = [tuple(panel["gridPos"][key] for key in "xy") for panel in dashboard()["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(places)


def test_every_fault_has_a_test_that_is_there() -> None:
    text = (OPERATIONS / "faults.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)`", row.rsplit("|", 2)[1])
        assert named, row
        for name in named:
            assert (TESTS / name).is_file(), row
