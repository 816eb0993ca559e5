"""Facts of the machine that the tests run on."""

import os

import pytest
import torch

from srt.errors import StartupError
from srt.runtime_plan.device_facts import find_device


def test_the_processor_is_described() -> None:
    facts = find_device("cpu")
    assert facts.kind == "cpu"
    assert facts.name
    assert 1 <= facts.num_cores <= (os.cpu_count() or 1)
    assert facts.total_memory > 2**20


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    assert find_device("auto").kind == "cpu"
    with pytest.raises(StartupError, match="torch finds no GPU"):
        find_device("cuda")
