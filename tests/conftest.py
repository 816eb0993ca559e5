"""What every test runs under: one compute thread, and no GPU test without a GPU."""

import os
import shutil
import subprocess
from pathlib import Path

import hypothesis
import pytest

# Before torch is imported: tests share the machine, and a tiny model gains nothing from a second thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests use what is on the disk; a tokenizer that would ask a hub is a bug.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# A developer's runs look further each time; a run that decides over a change gives the same verdict twice. No test
# fails for being slow: machines are shared.
hypothesis.settings.register_profile("lockstep", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("lockstep")

TESTS = Path(__file__).parent
# Workers take file after file in this order, so that in the end nobody waits for one who has a long file left.
LONGEST_FIRST = ("e2e", "managers/scheduler", "srt/distributed", "managers", "srt/models", "srt/entrypoints")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=place_in_order)
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_tests and not has_gpu():
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def place_in_order(item: pytest.Item) -> int:
    path = item.path.relative_to(TESTS).as_posix()
    places = (place for place, folder in enumerate(LONGEST_FIRST) if path.startswith(f"{folder}/"))
    return next(places, len(LONGEST_FIRST))


@pytest.fixture
def anyio_backend() -> str:
    """Which loop runs async tests."""
    return "asyncio"


def has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None:
        return False
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False)
    return listed.returncode == 0 and bool(listed.stdout.strip())
