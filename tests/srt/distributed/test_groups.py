"""Ranks that share one model give what a rank alone gives, each in a process of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from srt.distributed.collectives import LoneGroup
from srt.distributed.groups import init_tp_group
from srt.distributed.rank import ALONE, RankInfo
from srt.errors import StartupError
from tests.fakes.rank_hosts import RankHosts
from tests.fakes.real_runner import load_runner
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint
from tests.fakes.tp_ranks import NUM_AT_ONCE, meet_one_that_leaves, run_ranks, serve


@dataclass(frozen=True)
class World:
    """Checkpoints, what one rank makes of them, and what several do."""

    size: int
    alone: list[torch.Tensor]
    seen: list[Any]


@pytest.fixture(scope="module")
def hosts() -> Iterator[RankHosts]:
    with RankHosts(3, preload=run_ranks.__module__) as hosts:
        yield hosts


@pytest.fixture(scope="module", params=[(2, False), (3, True)], ids=["2 over gloo", "3 in shared memory"])
def world(
    request: pytest.FixtureRequest, hosts: RankHosts, tmp_path_factory: pytest.TempPathFactory
) -> World:
    folder = tmp_path_factory.mktemp("ranks")
    biases = {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}
    checkpoints = [
        write_tiny_checkpoint(folder / "llama"),
        write_tiny_checkpoint(folder / "biases", **biases),
        write_tiny_checkpoint(folder / "qwen3", "Qwen3ForCausalLM", head_dim=16, vocab_size=132),
    ]
    alone = [serve(load_runner(checkpoint)) for checkpoint in checkpoints]
    size, in_memory = request.param
    return World(size, alone, run_ranks(hosts, size, folder, checkpoints, in_memory=in_memory))


def test_logits_are_those_of_one_rank(world: World) -> None:
    for found, expected in zip(world.seen[0]["logits"], world.alone, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
        assert found.argmax(-1).tolist() == expected.argmax(-1).tolist()


def test_every_rank_has_the_same_bits(world: World) -> None:
    for rank in range(1, world.size):
        for own, leaders in zip(world.seen[rank]["logits"], world.seen[0]["logits"], strict=True):
            assert torch.equal(own, leaders)


def test_the_pool_has_the_least_size_of_any_rank(world: World) -> None:
    least = 1024 - 100 * (world.size - 1)
    assert [seen["num_tokens"] for seen in world.seen] == [[least] * 3] * world.size


def test_collectives_answer_the_same_on_every_rank(world: World) -> None:
    size = world.size
    expected = {
        "broadcast": [0, 5],
        "min": 10 - (size - 1),
        "sum": [[float(size), float(sum(range(size)))]],
        "sum_bf16": [0.5 * size],
        "columns": [[number for rank in range(size) for number in (rank, 10 + rank)]],
        "side by side": [NUM_AT_ONCE, NUM_AT_ONCE],
    }
    assert [seen["collectives"] for seen in world.seen] == [expected] * size


def test_dummy_weights_are_the_same_at_any_size(hosts: RankHosts, tmp_path: Path) -> None:
    checkpoint = write_tiny_checkpoint(tmp_path / "model")
    (checkpoint / "model.safetensors").unlink()
    alone = serve(load_runner(checkpoint, load_format="dummy"))
    (seen, _) = run_ranks(hosts, 2, tmp_path, [checkpoint], load_format="dummy")
    torch.testing.assert_close(seen["logits"][0], alone, atol=1e-4, rtol=0)
    assert not torch.equal(alone, serve(load_runner(checkpoint, load_format="dummy", seed=1)))


def test_a_rank_alone_meets_nobody() -> None:
    assert isinstance(init_tp_group(ALONE, "tcp://127.0.0.1:1", 1.0), LoneGroup)


def test_ranks_that_do_not_come_are_reported(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="rank 1 of 2 could not meet the other ranks at file:"):
        init_tp_group(RankInfo(1, 2), f"file://{tmp_path}/meet", 0.2)


def test_a_lone_group_changes_nothing() -> None:
    group, tensor, message = LoneGroup(), torch.ones(2, 2), torch.tensor([3], dtype=torch.uint8)
    group.broadcast_bytes(message)
    assert group.all_reduce(tensor) is tensor
    assert group.all_gather_columns(tensor) is tensor
    assert group.all_reduce_min(4) == 4
    assert message.tolist() == [3]


def test_a_rank_that_is_gone_is_said_to_be(hosts: RankHosts, tmp_path: Path) -> None:
    assert meet_one_that_leaves(hosts, tmp_path).startswith("rank 0 of 2 waited for a rank that has ended")
