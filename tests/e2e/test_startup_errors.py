"""What cannot be served is said in one sentence before the port opens, and the exit code is not 0."""

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess


def failed_start(*flags: str) -> str:
    """The log of a server that does not start."""
    server = ServerProcess(*flags)
    code = server.wait(timeout_s=120)
    assert not server.is_healthy()
    server.stop()
    log = server.log()
    assert code not in (0, None), log
    assert "Traceback" not in log
    assert server.leftovers() == []
    return log


@pytest.fixture
def model_copy(tiny_model: str, tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    return folder


def test_a_missing_folder(tmp_path: Path) -> None:
    assert str(tmp_path / "nowhere") in failed_start("--model-path", str(tmp_path / "nowhere"))


def test_an_unsupported_architecture(model_copy: Path) -> None:
    config = json.loads((model_copy / "config.json").read_text())
    config["architectures"] = ["FancyForCausalLM"]
    (model_copy / "config.json").write_text(json.dumps(config))
    log = failed_start("--model-path", str(model_copy))
    assert "FancyForCausalLM" in log
    assert "LlamaForCausalLM" in log


def test_a_truncated_shard(model_copy: Path) -> None:
    shard = model_copy / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1000])
    assert "model.safetensors" in failed_start("--model-path", str(model_copy))


def test_more_ranks_than_key_value_heads(model_copy: Path) -> None:
    assert "tp" in failed_start("--model-path", str(model_copy), "--tp-size", "7").lower()


def test_all_flag_problems_at_once(tiny_model: str) -> None:
    log = failed_start("--model-path", tiny_model, "--tp-size", "0", "--page-size", "0")
    assert "tp-size" in log
    assert "page-size" in log
