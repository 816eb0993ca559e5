"""SIGKILL of any process of a server: no process, no socket, no shared memory is left, and the next server starts."""

from pathlib import Path

import psutil
import pytest

from tests.e2e.server_process import ServerProcess

EVERY_KIND = ("--load-format", "mock", "--dp-size", "2", "--tokenizer-worker-num", "2")
FORM = {"text": "a", "sampling_params": {"max_new_tokens": 4, "regex": "[ab]{4}"}}


def shared_memory_of(process: psutil.Process) -> list[str]:
    maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    return [line for line in maps if "/dev/shm/" in line]


@pytest.mark.parametrize(
    "victim",
    [
        "launch_server",
        pytest.param("data_parallel_controller", marks=pytest.mark.slow),
        pytest.param("detokenizer", marks=pytest.mark.slow),
        pytest.param("tokenizer_worker_1", marks=pytest.mark.slow),
        pytest.param("grammar_compiler", marks=pytest.mark.slow),
    ],
)
def test_whoever_is_killed_nothing_is_left(victim: str) -> None:
    with ServerProcess(*EVERY_KIND) as server:
        if victim in ("launch_server", "grammar_compiler"):
            assert server.post("/generate", FORM).status_code == 200
        tree = server.tree()
        assert [line for process in tree for line in shared_memory_of(process)] == []
        server.named(victim).kill()
        if victim == "grammar_compiler":
            other = {**FORM, "sampling_params": {"max_new_tokens": 4, "regex": "[cd]{4}"}}
            assert server.post("/generate", other).status_code == 200
            tree = server.tree()
            assert server.terminate() == 0
        else:
            assert server.wait(20) != 0
        _, alive = psutil.wait_procs(tree, timeout=10)
        assert alive == []
        assert server.leftovers() == []
        if victim == "launch_server":
            with ServerProcess("--load-format", "mock", port=server.port) as next_server:
                assert next_server.get("/health_generate") == {"status": "ok"}
