"""A runner from loading to its sized pool; what it runs is checked in tests/srt/models/."""

from pathlib import Path

import pytest
import torch

from srt.configs.load import load_model_config
from srt.distributed.collectives import LoneGroup
from srt.distributed.rank import RankInfo
from srt.errors import StartupError
from srt.model_executor.model_runner import ModelRunner, RunnerStats
from srt.model_executor.warmup import warm_up
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.real_runner import load_runner, make_plan
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint

PROMPT = list(range(3, 20))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("model"))


def test_the_pool_holds_whole_pages_up_to_the_users_cap(checkpoint: Path) -> None:
    runner = load_runner(checkpoint, page_size=16, max_total_tokens=100)
    # Two layers, keys and values, three heads of 8 float32; six pages and one for padding.
    bytes_per_token = 2 * 2 * 3 * 8 * 4
    stats = runner.stats()
    assert stats == RunnerStats(stats.weight_bytes, bytes_per_token * 7 * 16, 96)


def test_weight_bytes_count_every_matrix(checkpoint: Path) -> None:
    matrices = 2 * 131 * 48 + 2 * (2 * 48 * 48 + 2 * 24 * 48 + 3 * 80 * 48)
    assert load_runner(checkpoint).stats().weight_bytes == 4 * matrices


def test_the_pool_is_empty_before_it_is_sized(checkpoint: Path) -> None:
    group = LoneGroup()
    runner = ModelRunner.load(
        config=load_model_config(checkpoint),
        plan=make_plan(),
        rank=group.rank,
        group=group,
        load_format="auto",
        seed=0,
    )
    assert runner.stats().num_tokens == 0
    assert runner.size_pool() == runner.stats().num_tokens == 1024


def test_no_memory_for_a_page_stops_the_start(checkpoint: Path) -> None:
    with pytest.raises(StartupError, match="no memory is left for the KV cache"):
        # Of a size that no machine has: what others free meanwhile makes no difference.
        load_runner(checkpoint, mem_fraction_static=1e-9, max_total_tokens=None, page_size=10**15)


def test_a_few_tokens_are_granted_whatever_the_fraction(checkpoint: Path) -> None:
    assert load_runner(checkpoint, mem_fraction_static=1e-9, max_total_tokens=64).stats().num_tokens == 64


def test_more_ranks_than_key_value_heads_are_refused(checkpoint: Path) -> None:
    with pytest.raises(StartupError, match="the largest usable size is 3"):
        ModelRunner.load(
            config=load_model_config(checkpoint),
            plan=make_plan(),
            rank=RankInfo(0, 4),
            group=LoneGroup(),
            load_format="auto",
            seed=0,
        )


def test_logits_are_the_callers_to_change(checkpoint: Path) -> None:
    runner = load_runner(checkpoint)
    first, second = (runner.forward(extend([(Tokens(), PROMPT)], Slots(100))).logits for _ in range(2))
    with torch.inference_mode():
        first[0, 5] += 1.0
    assert torch.nonzero(first != second).tolist() == [[0, 5]]


def test_bfloat16_comes_near_to_float32(checkpoint: Path) -> None:
    exact = load_runner(checkpoint).forward(extend([(Tokens(), PROMPT)], Slots(100))).logits
    rounded = (
        load_runner(checkpoint, dtype="bfloat16").forward(extend([(Tokens(), PROMPT)], Slots(100))).logits
    )
    assert torch.nn.functional.cosine_similarity(exact, rounded.float()).item() > 0.99


def test_warming_up_leaves_no_trace(checkpoint: Path) -> None:
    cold, warm = load_runner(checkpoint), load_runner(checkpoint)
    warm_up(warm, num_tokens=32)
    batches = [extend([(Tokens(), PROMPT)], Slots(100)) for _ in range(2)]
    assert torch.equal(warm.forward(batches[0]).logits, cold.forward(batches[1]).logits)
