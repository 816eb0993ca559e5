import math
from dataclasses import replace
from typing import Any

import pytest

from srt.errors import StartupError
from srt.server_args.checks import check_args, public_flags
from srt.server_args.server_args import ServerArgs


def test_the_defaults_are_fine() -> None:
    check_args(ServerArgs())


@pytest.mark.parametrize(
    "values",
    [
        {"chunked_prefill_size": -1, "page_size": 64},
        {"chunked_prefill_size": 16, "page_size": 16},
        {"max_queued_requests": 0},
        {"drain_timeout": 0.0},
        {"mem_fraction_static": 0.999},
        {"max_total_tokens": 64, "page_size": 64},
    ],
)
def test_values_at_the_edge_are_fine(values: dict[str, Any]) -> None:
    check_args(ServerArgs(**values))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"enable_overlap_schedule": True, "disable_overlap_schedule": True},
            "--enable-overlap-schedule and --disable-overlap-schedule contradict",
        ),
        ({"tp_size": 0}, "--tp-size must be at least 1, got 0"),
        ({"page_size": 0}, "--page-size must be at least 1, got 0"),
        ({"max_running_requests": 0}, "--max-running-requests must be at least 1, got 0"),
        ({"max_queued_requests": -1}, "--max-queued-requests must be at least 0, got -1"),
        ({"context_length": -5}, "--context-length must be at least 1, got -5"),
        ({"port": 70000}, "--port must be between"),
        ({"mem_fraction_static": 1.0}, "--mem-fraction-static must be between 0 and 1"),
        ({"mem_fraction_static": math.nan}, "--mem-fraction-static must be between 0 and 1"),
        ({"dist_timeout": 0.0}, "--dist-timeout must be at least 5"),
        ({"watchdog_timeout": math.nan}, "--watchdog-timeout must be a finite number"),
        ({"drain_timeout": math.inf}, "--drain-timeout must be a finite number"),
        ({"chunked_prefill_size": 0}, "--chunked-prefill-size must be at least 1, or -1"),
        ({"chunked_prefill_size": 8, "page_size": 16}, "must be at least --page-size (16)"),
        ({"max_total_tokens": 8, "page_size": 16}, "--max-total-tokens (8) holds no page"),
        ({"api_key": ""}, "--api-key must not be empty"),
        ({"log_requests_target": ""}, "--log-requests-target must not be empty"),
        ({"slow_request_threshold": 0.0}, "--slow-request-threshold must be a finite number greater than 0"),
        ({"metrics_prefix": "a-b_"}, "--metrics-prefix must be letters, digits and _"),
        (
            {"schedule_policy": "lifo"},
            "--schedule-policy must be one of fcfs, lpm, dfs-weight, lof, random; got lifo",
        ),
        (
            {"request_waiting_timeout": 0.0},
            "--request-waiting-timeout must be a finite number greater than 0",
        ),
        ({"schedule_conservativeness": -1.0}, "--schedule-conservativeness must be at least 0, got -1.0"),
        ({"default_priority_value": 2**31}, "--default-priority-value must be a 32-bit number"),
        ({"disable_priority_preemption": True}, "--disable-priority-preemption needs --enable-priority"),
    ],
)
def test_a_wrong_value_is_named_with_its_flag(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StartupError) as error_info:
        check_args(ServerArgs(**values))
    assert sentence in str(error_info.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(StartupError) as error_info:
        check_args(ServerArgs(tp_size=0, port=-1, page_size=0))
    for option in ("--tp-size", "--port", "--page-size"):
        assert option in str(error_info.value)


def test_a_secret_is_shown_as_set_but_not_told() -> None:
    assert public_flags(ServerArgs(api_key="hunter2"))["api_key"] == "***"
    assert public_flags(ServerArgs())["api_key"] is None


def test_everything_else_is_shown_as_it_is() -> None:
    args = ServerArgs(port=1234, disable_radix_cache=True)
    shown = public_flags(args)
    assert replace(args, **shown) == args
