"""Facts of the machine that the tests run on."""

import os
from pathlib import Path

import pytest
import torch

from srt.errors import StartupError
from srt.runtime_plan.device_facts import find_device, num_siblings


def test_the_processor_is_described() -> None:
    facts = find_device("cpu")
    assert facts.kind == "cpu"
    assert facts.name
    assert 1 <= facts.num_cores <= (os.cpu_count() or 1)
    assert facts.total_memory > 2**20
    assert 0 <= facts.num_siblings < facts.num_cores


def test_second_threads_of_a_core_are_counted(tmp_path: Path) -> None:
    for processor in range(8):
        folder = tmp_path / f"cpu{processor}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{processor % 4},{processor % 4 + 4}\n")
    assert num_siblings(range(8), 8, tmp_path) == 4
    assert num_siblings([0, 1, 5], 3, tmp_path) == 1
    assert num_siblings(range(8), 3, tmp_path) == 0  # a quota leaves a core for each
    assert num_siblings([8, 9], 2, tmp_path) == 0  # nothing is known of them


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    assert find_device("auto").kind == "cpu"
    with pytest.raises(StartupError, match="torch finds no GPU"):
        find_device("cuda")
