"""What is wrong with a checkpoint is said in one sentence that names the file or the weight."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from srt.configs.hf_config import load_hf_config
from srt.distributed.rank import ALONE, RankInfo
from srt.errors import StartupError
from srt.model_loader.load import load_weights
from srt.models.llama import CausalModel
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint

Weights = dict[str, torch.Tensor]
Q_PROJ = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_tiny_checkpoint(tmp_path)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    return write_tiny_checkpoint(tmp_path, max_shard_size="50KB")


def load(
    folder: Path,
    *,
    rank: RankInfo = ALONE,
    load_format: str = "auto",
    on_progress: Callable[[int, int], None] | None = None,
) -> Weights:
    config = load_hf_config(folder)
    return load_weights(
        CausalModel.slices(config, rank),
        config=config,
        load_format=load_format,
        seed=0,
        dtype=torch.float32,
        device="cpu",
        on_progress=on_progress,
    )


def rewrite(folder: Path, change: Callable[[Weights], None]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def test_every_weight_is_read_from_several_files(shards: Path) -> None:
    files = list(shards.glob("*.safetensors"))
    assert len(files) > 1
    expected = {name: tensor for path in files for name, tensor in load_file(path).items()}
    found = load(shards)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_ranks_slices_make_up_the_whole(checkpoint: Path) -> None:
    whole = load(checkpoint)
    first, second = (load(checkpoint, rank=RankInfo(rank, 2)) for rank in range(2))
    for name, tensor in whole.items():
        if first[name].shape == tensor.shape:
            assert torch.equal(first[name], tensor)
            assert torch.equal(second[name], tensor)
        else:
            dim = 1 if name.endswith(("o_proj.weight", "down_proj.weight")) else 0
            assert torch.equal(torch.cat((first[name], second[name]), dim=dim), tensor)
    # Three groups of two query heads, 8 values each: two groups and one.
    assert first[Q_PROJ].shape[0] == 32
    assert second[Q_PROJ].shape[0] == 16


def test_progress_ends_with_every_weight(checkpoint: Path) -> None:
    seen: list[tuple[int, int]] = []
    weights = load(checkpoint, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, len(weights)) for number in range(1, len(weights) + 1)]


def test_a_missing_shard_is_named(shards: Path) -> None:
    lost = sorted(shards.glob("*.safetensors"))[1]
    lost.unlink()
    with pytest.raises(StartupError, match=rf"index\.json names {lost.name}, which does not exist"):
        load(shards)


def test_a_truncated_file_is_named(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(StartupError, match=r"model\.safetensors is damaged or incomplete"):
        load(checkpoint)


def test_an_empty_file_is_named(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").write_bytes(b"")
    with pytest.raises(StartupError, match=r"model\.safetensors is damaged or incomplete"):
        load(checkpoint)


def test_a_folder_without_weights_is_named(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    with pytest.raises(StartupError, match="holds no safetensors weights"):
        load(checkpoint)


def test_a_missing_weight_is_named(checkpoint: Path) -> None:
    rewrite(checkpoint, lambda weights: weights.__delitem__("model.norm.weight"))
    with pytest.raises(StartupError, match=r"lacks model\.norm\.weight, which LlamaForCausalLM needs"):
        load(checkpoint)


def test_surplus_weights_are_named_and_counted(checkpoint: Path) -> None:
    extra = {f"model.layers.0.self_attn.{part}_proj.bias": torch.zeros(48) for part in "qo"}
    rewrite(checkpoint, lambda weights: weights.update(extra))
    with pytest.raises(StartupError, match=r"_proj\.bias and 1 more weights, which LlamaForCausalLM has no"):
        load(checkpoint)


def test_a_weight_of_another_shape_is_named_with_both(checkpoint: Path) -> None:
    rewrite(checkpoint, lambda weights: weights.update({Q_PROJ: torch.zeros(40, 48)}))
    with pytest.raises(StartupError, match=r"q_proj\.weight has shape \[40, 48\], but .* \[48, 48\]"):
        load(checkpoint)


def test_weights_that_are_no_floats_are_refused(checkpoint: Path) -> None:
    rewrite(checkpoint, lambda weights: weights.update({Q_PROJ: torch.zeros(48, 48, dtype=torch.int8)}))
    with pytest.raises(StartupError, match=r"q_proj\.weight is stored as torch\.int8"):
        load(checkpoint)


def test_another_format_than_the_checkpoints_is_refused(checkpoint: Path) -> None:
    with pytest.raises(
        StartupError, match=r"--load-format gguf was asked for, but .* is a safetensors model"
    ):
        load(checkpoint, load_format="gguf")


def test_old_buffers_and_a_copy_of_a_tied_head_are_no_surplus(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, tie_word_embeddings=True)
    extra = {
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4),
        "lm_head.weight": torch.zeros(131, 48),
    }
    rewrite(tmp_path, lambda weights: weights.update(extra))
    assert "lm_head.weight" not in load(tmp_path)


def test_names_of_the_model_without_its_head_are_understood(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, tie_word_embeddings=True)
    expected = load(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file({name.removeprefix("model."): tensor for name, tensor in load_file(path).items()}, path)
    assert load(tmp_path).keys() == expected.keys()


def test_consolidated_copies_are_left_alone(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").rename(checkpoint / "weights.safetensors")
    save_file({"tok_embeddings.weight": torch.zeros(1)}, checkpoint / "consolidated.safetensors")
    assert Q_PROJ in load(checkpoint)


def test_an_index_without_files_falls_back_to_the_file(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {}}))
    assert Q_PROJ in load(checkpoint)
