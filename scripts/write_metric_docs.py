"""Write docs/metrics.md from the catalogue of metrics; `--check` only compares.

.venv/bin/python -m scripts.write_metric_docs
"""

import sys
from pathlib import Path

from scripts.written_page import write_or_check
from srt.observability.metric_catalogue import GROUPS, SGLANG_PREFIX, Metric
from srt.observability.request_timing import SEGMENTS

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
HEAD = """\
# Metrics

<!-- Written by scripts/write_metric_docs.py out of srt/observability/metric_catalogue.py. Do not edit. -->

`--enable-metrics` serves them at `/metrics`, without a key, in Prometheus' text format. Without the flag that is a
404. Any process that serves HTTP answers for all (`--tokenizer-worker-num`): counters and histograms are summed, and
nothing is kept in files. Schedulers and the detokenizer report when something changes, at most ten times a second,
and every second; the fronts' own figures are those of this moment.

Names that begin with `sglang:` are SGLang's, with its kinds, labels and buckets, and mean the same, so that
dashboards made for it work. Prometheus' rules frown on the colon: `--metrics-prefix lockstep_` gives names that
`promtool check metrics` has nothing against. What SGLang has no name for always begins with `lockstep_`.

* **The clock of a request starts when the first byte of its HTTP request is read**, before it is parsed. Time to
  first token and end-to-end latency are measured from there to the moment at which the text is handed to the
  endpoint. Of an answer that is not streamed, the first token counts from when it was generated, though nobody was
  told yet.
* **A request with several answers counts as several**, as in the scheduler: `num_running_reqs`, `num_requests_total`
  and the latencies are about answers. Answers that are cut off are counted, not timed.
* **Between tokens**: k tokens that arrive together after t seconds count as k intervals of t/k.
* `model_name` is the served name; `engine_type` is always `unified`; `tp_rank`, `pp_rank` and `moe_ep_rank` are 0,
  because rank 0 talks for its group; `dp_rank` is the replica.
* `cache_hit_rate` is over all prompts since the start or the last flush; SGLang's is over its last prefill batches.
  For a window, divide rates of `realtime_tokens_total`.
"""
TIMELINE = """
## The segments of a request

`lockstep_request_segment_seconds` cuts the time of a request, from its first byte read to its last byte written, into
segments without a gap: their sums add up to the clients' own time, but for the way to them.
`scripts/split_latency.py` reads them before and after a run and says what share each had; `--slow-request-threshold`
writes a request's own into the log. While an answer is streamed, what detokenizer and front do runs beside `decode`;
only what follows the last token is in `detokenize` and `write`.

| segment | share | |
|---|---|---|
"""
ABOUT_SEGMENTS = {
    "receive": "the HTTP request is read, checked and translated",
    "template": "messages become text; a thread is waited for",
    "tokenize": "text becomes tokens",
    "dispatch": "last checks; its grammar, if compiling that takes longer than all before",
    "transport": "to the scheduler, which may be in the middle of a step",
    "queue": "it waits for its first step",
    "prefill": "to the first token",
    "decode": "from the first token to the last",
    "detokenize": "the last token becomes text",
    "write": "the text reaches its endpoint, is encoded and leaves",
}


def render_page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, metrics in GROUPS.items():
        parts.append(f"\n## {title}\n\n| metric | kind | labels | |\n|---|---|---|---|\n")
        parts.extend(_row(metric) for metric in metrics)
    parts.append(TIMELINE)
    parts.extend(f"| `{name}` | {share} | {ABOUT_SEGMENTS[name]} |\n" for name, share in SEGMENTS.items())
    return "".join(parts)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.full_name(SGLANG_PREFIX)}` | {metric.kind} | {labels} | {metric.help} |\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render_page(), script="write_metric_docs"))
