"""Metrics as Prometheus' text format, 0.0.4.

Written here rather than with prometheus_client: our figures are finished numbers out of messages and shared memory, so
of that library only the printing would be used, sixty lines of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from srt.observability.histogram import Distribution
from srt.observability.metric_catalogue import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Sample:
    """One series: its labels, and its value now."""

    labels: Mapping[str, str]
    value: int | float | Distribution


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one metric."""

    metric: Metric
    samples: Sequence[Sample]


def render(families: Iterable[Family], prefix: str) -> str:
    """The page. A metric without series is left out."""
    return "".join(f"{line}\n" for family in families if family.samples for line in _lines(family, prefix))


def _lines(family: Family, prefix: str) -> Iterator[str]:
    metric = family.metric
    name = metric.full_name(prefix)
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for sample in family.samples:
        # In the order of the catalogue, and nothing that it does not say.
        labels = ",".join(f'{label}="{sample.labels[label].translate(_ESCAPES)}"' for label in metric.labels)
        if isinstance(sample.value, Distribution):
            yield from _histogram_lines(name, labels, sample.value)
        else:
            yield f"{name}{{{labels}}} {sample.value!r}"


def _histogram_lines(name: str, labels: str, value: Distribution) -> Iterator[str]:
    num = 0
    for bound, count in zip((*value.bounds, None), value.counts, strict=True):
        num += count
        yield f'{name}_bucket{{{labels},le="{"+Inf" if bound is None else bound}"}} {num}'
    yield f"{name}_sum{{{labels}}} {value.sum_s!r}"
    yield f"{name}_count{{{labels}}} {num}"
