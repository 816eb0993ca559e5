"""What every test runs under: one compute thread, and no GPU test without a GPU."""

import os
import shutil
import subprocess

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_tests and not has_gpu():
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None:
        return False
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False)
    return listed.returncode == 0 and bool(listed.stdout.strip())
