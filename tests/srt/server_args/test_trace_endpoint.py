import pytest

from srt.server_args.checks import find_problems
from srt.server_args.server_args import ServerArgs
from srt.server_args.trace_endpoint import traces_url


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("https://collector/", "https://collector/v1/traces"),
        ("localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://gateway/otel/traces", "http://gateway/otel/traces"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_usual_one(endpoint: str, url: str) -> None:
    assert traces_url(ServerArgs(otlp_traces_endpoint=endpoint)) == url


def test_without_an_endpoint_the_usual_one_is_meant_if_any() -> None:
    assert traces_url(ServerArgs()) is None
    assert traces_url(ServerArgs(enable_trace=True)) == "http://localhost:4318/v1/traces"


@pytest.mark.parametrize("endpoint", ["", "grpc://collector:4317", "http://", "collector:port", "http://a:0"])
def test_what_is_no_endpoint_is_said_with_the_flag(endpoint: str) -> None:
    (problem,) = find_problems(ServerArgs(otlp_traces_endpoint=endpoint))
    assert problem.startswith("--otlp-traces-endpoint:")
