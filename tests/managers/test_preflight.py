import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from managers.preflight import claim_what_is_needed, is_installed, memory_problems
from srt.configs.load import load_model_config
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.server_args.server_args import ServerArgs
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "model"
    write_tiny_checkpoint(folder)
    return str(folder)


def test_a_server_that_can_start_has_its_port(model: str) -> None:
    with claim_what_is_needed(ServerArgs(model_path=model, port=0)) as sock:
        assert sock.getsockname()[1] > 0


def test_everything_that_is_wrong_is_said_at_once(model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        args = ServerArgs(
            model_path=model,
            port=port,
            page_size=0,
            tokenizer_path="/no/tokenizer",
            chat_template="/no/template",
            tool_call_parser="morse",
            tp_size=64,
            context_length=10**9,
            max_total_tokens=10**12,
            log_requests=True,
            log_requests_target="/dev/null/requests",
        )
        with pytest.raises(StartupError) as error_info:
            claim_what_is_needed(args)
    said = str(error_info.value).splitlines()
    assert said[0] == "the server cannot start:"
    for part in (
        f"127.0.0.1:{port}",
        "--page-size",
        "/no/tokenizer",
        "/no/template",
        "morse",
        "--tp-size 64",
        "--context-length",
        "memory is too small",
        "--log-requests-target",
    ):
        assert sum(part in line for line in said) == 1, (part, said)


def test_a_port_that_could_be_had_is_free_again_when_something_else_is_wrong(model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    args = ServerArgs(model_path=model, port=port)
    with pytest.raises(StartupError, match="there is no model at"):
        claim_what_is_needed(replace(args, model_path="/no/model"))
    claim_what_is_needed(args).close()


@pytest.mark.parametrize("wish", [{"enable_trace": True}, {"otlp_traces_endpoint": "http://collector:4318"}])
def test_packages_that_only_traces_need_are_missed_only_by_them(model: str, wish: dict[str, Any]) -> None:
    def is_there(module: str) -> bool:
        return module != "opentelemetry.exporter.otlp.proto.http"

    claim_what_is_needed(ServerArgs(model_path=model, port=0), is_there=is_there).close()
    with pytest.raises(StartupError, match=r"pip install opentelemetry-exporter-otlp-proto-http$"):
        claim_what_is_needed(ServerArgs(model_path=model, port=0, **wish), is_there=is_there)
    claim_what_is_needed(ServerArgs(model_path=model, port=0, **wish)).close()


def test_a_module_of_a_package_that_is_not_there_is_not_there() -> None:
    assert is_installed("opentelemetry.sdk")
    assert not is_installed("no_such_package.of.this.name")


@pytest.fixture
def config(model: str) -> ModelConfig:
    return load_model_config(Path(model))


def test_weights_and_cache_are_set_against_what_is_free(config: ModelConfig) -> None:
    args = ServerArgs(max_total_tokens=1000, dp_size=2)
    num_weights = 2 * (config.path / "model.safetensors").stat().st_size
    num_kv = 2 * 1000 * 2 * config.num_layers * config.num_kv_heads * config.head_dim * 2
    assert list(memory_problems(args, config, num_weights + num_kv)) == []
    (problem,) = memory_problems(args, config, num_weights + num_kv - 1)
    assert "--max-total-tokens" in problem
    assert list(memory_problems(replace(args, load_format="dummy"), config, num_kv)) == []
