"""Read from a checkpoint the weights that one rank of a model needs, and nothing else.

Every weight is there afterwards and has the shape that the model's configuration promises, or a StartupError says which
is not.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import torch

from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.model_loader.dummy_weights import dummy_weights
from srt.model_loader.gguf_stream import gguf_tensors
from srt.model_loader.name_map import parameter_name
from srt.model_loader.safetensors_stream import safetensors_weights
from srt.model_loader.shard import Slice, StoredTensor

Progress = Callable[[int, int], None]  # weights loaded so far, weights in all


def load_weights(
    slices: Mapping[str, Slice],
    *,
    config: ModelConfig,
    load_format: str,
    seed: int,
    dtype: torch.dtype,
    device: str,
    has_already: Collection[str] = (),
    on_progress: Progress | None = None,
) -> dict[str, torch.Tensor]:
    """The named slices. `load_format` is --load-format: "dummy" reads nothing, "auto" what the checkpoint is.

    Of those that the caller `has_already`, in some other form, it is only seen to that they are there.
    """
    weights: dict[str, torch.Tensor] = {}
    found: set[str] = set()
    surplus: list[str] = []
    for stored in _open(slices, config, load_format, seed, dtype):
        name = parameter_name(stored.name, tie_word_embeddings=config.tie_word_embeddings)
        if name is None:
            continue
        if name not in slices:
            surplus.append(stored.name)
            continue
        _check(stored, slices[name], config)
        found.add(name)
        if name not in has_already:
            weights[name] = stored.read(slices[name]).to(device=device, dtype=dtype)
        if on_progress is not None:
            on_progress(len(found), len(slices))
    missing = [name for name in slices if name not in found]
    if missing:
        raise StartupError(f"{config.path} lacks {_listed(missing)}, which {config.architecture} needs")
    if surplus:
        raise StartupError(
            f"{config.path} holds {_listed(surplus)}, which {config.architecture} has no use for"
        )
    return weights


def _open(
    slices: Mapping[str, Slice], config: ModelConfig, load_format: str, seed: int, dtype: torch.dtype
) -> Iterator[StoredTensor]:
    if load_format == "dummy":
        return dummy_weights(slices, seed)
    if load_format not in ("auto", config.checkpoint_format):
        raise StartupError(
            f"--load-format {load_format} was asked for, but {config.path} is a {config.checkpoint_format} model"
        )
    if config.checkpoint_format == "gguf":
        return gguf_tensors(config.path, dtype)
    return safetensors_weights(config.path)


def _check(stored: StoredTensor, part: Slice, config: ModelConfig) -> None:
    if stored.shape != part.shape:
        raise StartupError(
            f"{config.path}: {stored.name} has shape {list(stored.shape)}, "
            f"but by the model's configuration it should be {list(part.shape)}"
        )


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{names[0]} and {len(names) - 1} more weights"
