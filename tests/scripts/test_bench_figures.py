from bench_client import Answer
from bench_figures import median_of, percentiles, summarise


def test_percentiles_lie_between_the_values_they_fall_between() -> None:
    assert percentiles([0.001 * i for i in range(101)]) == {"p50": 50.0, "p90": 90.0, "p99": 99.0}


def test_of_nothing_there_are_no_percentiles() -> None:
    assert percentiles([]) == {}


def test_a_run_of_known_times_has_known_figures() -> None:
    answer = Answer(
        sent_at=10.0,
        ended_at=11.0,
        text_arrivals=[10.25, 10.5, 10.75],
        num_events=3,
        prompt_tokens=100,
        cached_tokens=40,
        completion_tokens=6,
    )
    failed = Answer(error="HTTP 503")
    figures = summarise([answer, failed], duration_s=2.0, server_cpu_s={"server [1]": 0.003})
    assert figures["num_errors"] == 1
    assert figures["first_error"] == "HTTP 503"
    assert (figures["input_tokens_per_s"], figures["output_tokens_per_s"]) == (50.0, 3.0)
    assert figures["requests_per_s"] == 0.5
    assert figures["tokens_per_event"] == 2.0
    assert figures["ttft_ms"]["p50"] == 250.0
    assert figures["itl_ms"]["p99"] == 250.0
    assert figures["tpot_ms"]["p50"] == 100.0
    assert figures["e2e_ms"]["p90"] == 1000.0
    assert figures["cpu_us_per_output_token"] == {"server [1]": 500.0}


def test_the_median_of_runs_is_taken_number_by_number() -> None:
    runs = [
        {"rate": 1.0, "ttft_ms": {"p50": 9.0}, "first_error": None},
        {"rate": 3.0, "ttft_ms": {"p50": 7.0}, "first_error": "late"},
        {"rate": 2.0, "ttft_ms": {}, "first_error": None},
    ]
    assert median_of(runs) == {"rate": 2.0, "ttft_ms": {"p50": 8.0}, "first_error": "late"}
