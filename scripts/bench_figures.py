"""The figures of scripts/bench_serving.py: from answers to rates and percentiles, from runs to medians, to a table."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import psutil

from bench_client import Answer

PERCENTILES = (50, 90, 99)


def percentiles(seconds: Iterable[float]) -> dict[str, float]:
    """p50, p90 and p99 in milliseconds, interpolated; empty when there is nothing to rank."""
    values = sorted(seconds)
    ranked = {}
    for percent in PERCENTILES if values else ():
        place = (len(values) - 1) * percent / 100
        low, share = int(place), place % 1
        high = min(low + 1, len(values) - 1)
        ranked[f"p{percent}"] = 1000 * (values[low] + (values[high] - values[low]) * share)
    return ranked


def summarise(answers: Sequence[Answer], duration_s: float, server_cpu_s: dict[str, float]) -> dict[str, Any]:
    """One run's figures. Latencies are of requests without an error."""
    good = [answer for answer in answers if answer.error is None]
    output_tokens = sum(answer.completion_tokens for answer in good)
    prompt_tokens = sum(answer.prompt_tokens for answer in good)
    num_events = sum(answer.num_events for answer in good)
    with_text = [answer for answer in good if answer.text_arrivals]
    return {
        "num_requests": len(answers),
        "num_errors": len(answers) - len(good),
        "first_error": next((answer.error for answer in answers if answer.error), None),
        "duration_s": duration_s,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": sum(answer.cached_tokens for answer in good),
        "output_tokens": output_tokens,
        "input_tokens_per_s": prompt_tokens / duration_s,
        "output_tokens_per_s": output_tokens / duration_s,
        "requests_per_s": len(good) / duration_s,
        "num_events": num_events,
        "tokens_per_event": output_tokens / num_events if num_events else None,
        "ttft_ms": percentiles(a.text_arrivals[0] - a.sent_at for a in with_text),
        "itl_ms": percentiles(
            later - earlier
            for a in with_text
            for earlier, later in zip(a.text_arrivals, a.text_arrivals[1:], strict=False)
        ),
        "tpot_ms": percentiles(
            (a.text_arrivals[-1] - a.text_arrivals[0]) / (a.completion_tokens - 1)
            for a in with_text
            if a.completion_tokens > 1
        ),
        "e2e_ms": percentiles(a.ended_at - a.sent_at for a in good),
        "cpu_us_per_output_token": {
            name: 1e6 * seconds / output_tokens for name, seconds in server_cpu_s.items() if output_tokens
        },
    }


def median_of(runs: Sequence[Any]) -> Any:
    """Runs of the same shape, each number replaced by its median; what is no number is the first run's."""
    first = runs[0]
    if isinstance(first, dict):
        return {name: median_of([run[name] for run in runs if name in run]) for name in first}
    numbers = [run for run in runs if isinstance(run, int | float)]
    return statistics.median(numbers) if numbers else next((run for run in runs if run is not None), None)


def cpu_seconds(root_pid: int | None) -> dict[str, float]:
    """CPU time so far of a process and its descendants, by title and pid."""
    if root_pid is None:
        return {}
    root = psutil.Process(root_pid)
    found = {}
    for process in [root, *root.children(recursive=True)]:
        try:
            times = process.cpu_times()
            title = " ".join(process.cmdline()) or process.name()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        found[f"{title[:60].strip()} [{process.pid}]"] = times.user + times.system
    return found


def render_table(report: dict[str, Any]) -> str:
    """The median run, for a human."""
    median = report["median"]
    num_errors = sum(run["num_errors"] for run in report["runs"])
    lines = [
        f"{report['model']} at {report['url']}, {len(report['runs'])} run(s) of {median['num_requests']:,.0f} requests",
        f"  output    {median['output_tokens_per_s']:12,.1f} tokens/s   {median['output_tokens']:,.0f} tokens"
        f" in {median['duration_s']:,.2f} s",
        f"  input     {median['input_tokens_per_s']:12,.1f} tokens/s   {median['prompt_tokens']:,.0f} tokens,"
        f" {median['cached_tokens']:,.0f} of them cached",
        f"  requests  {median['requests_per_s']:12,.2f} /s         {num_errors} errors",
    ]
    if median["tokens_per_event"] is not None:
        lines.append(f"  tokens per event {median['tokens_per_event']:.2f}")
    lines.append("  ms        " + "".join(f"{f'p{percent}':>12}" for percent in PERCENTILES))
    for name in ("ttft", "itl", "tpot", "e2e"):
        lines.append(f"  {name:10}" + "".join(f"{value:12,.2f}" for value in median[f"{name}_ms"].values()))
    for name, cost in sorted(median["cpu_us_per_output_token"].items(), key=lambda item: -item[1]):
        lines.append(f"  CPU {cost:12,.1f} us per output token   {name}")
    if median["first_error"] is not None:
        lines.append(f"  first error: {median['first_error']}")
    return "\n".join(lines)
