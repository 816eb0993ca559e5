"""Read from a checkpoint the weights that one rank of a model needs, and nothing else. Some stay or become quantised.

Every weight is there afterwards and has the shape that the model's configuration promises, or a StartupError says which
is not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.model_loader.dummy_weights import dummy_weights
from srt.model_loader.gguf_stream import GgufWeight, gguf_weights
from srt.model_loader.name_map import parameter_name
from srt.model_loader.quantize import QUANTIZERS, quantize
from srt.model_loader.safetensors_stream import safetensors_weights
from srt.model_loader.shard import Slice, StoredTensor, Weight

Progress = Callable[[int, int], None]  # weights loaded so far, weights in all


def load_weights(
    slices: Mapping[str, Slice],
    *,
    config: ModelConfig,
    load_format: str,
    seed: int,
    dtype: torch.dtype,
    device: str,
    quantization: str = "none",
    on_progress: Progress | None = None,
) -> dict[str, Weight]:
    """The named slices. `load_format` is --load-format: "dummy" reads nothing, "auto" what the checkpoint is.

    `quantization` is the plan's: whether matrices stay as they are stored, or are quantised now. Those that cannot be
    are of type `dtype`.
    """
    weights: dict[str, Weight] = {}
    surplus: list[str] = []
    for stored in _open(slices, config, load_format, seed, keeps_quantized=quantization == "stored"):
        name = parameter_name(stored.name, tie_word_embeddings=config.tie_word_embeddings)
        if name is None:
            continue
        if name not in slices:
            surplus.append(stored.name)
            continue
        weight = _read(stored, slices[name], config)
        if isinstance(weight, torch.Tensor) and quantization in QUANTIZERS:
            weight = quantize(weight, slices[name], name, quantization)
        weights[name] = weight.to(device=device, dtype=dtype) if isinstance(weight, torch.Tensor) else weight
        if on_progress is not None:
            on_progress(len(weights), len(slices))
    missing = [name for name in slices if name not in weights]
    if missing:
        raise StartupError(f"{config.path} lacks {_listed(missing)}, which {config.architecture} needs")
    if surplus:
        raise StartupError(
            f"{config.path} holds {_listed(surplus)}, which {config.architecture} has no use for"
        )
    return weights


def _open(
    slices: Mapping[str, Slice], config: ModelConfig, load_format: str, seed: int, *, keeps_quantized: bool
) -> Iterator[StoredTensor]:
    if load_format == "dummy":
        return dummy_weights(slices, seed)
    if load_format not in ("auto", config.checkpoint_format):
        raise StartupError(
            f"--load-format {load_format} was asked for, but {config.path} is a {config.checkpoint_format} model"
        )
    if config.checkpoint_format == "gguf":
        return (
            StoredTensor(weight.name, weight.tensor.shape, _GgufReader(weight, keeps_quantized))
            for weight in gguf_weights(config.path)
        )
    return safetensors_weights(config.path)


@dataclass(frozen=True, slots=True)
class _GgufReader:
    """Reads a slice. Only whole blocks can be decoded: each tensor is read whole, one at a time."""

    weight: GgufWeight
    keeps_quantized: bool

    def __call__(self, part: Slice) -> Weight:
        quantized = self.weight.quantized() if self.keeps_quantized else None
        if quantized is not None:
            cut = part.of_quantized(quantized)
            if cut is not None:
                return cut
        tensor = self.weight.dense()
        # A clone, so that the rest of the tensor can go.
        return tensor if part.dim is None else part.of(tensor).clone()


def _read(stored: StoredTensor, part: Slice, config: ModelConfig) -> Weight:
    if stored.shape != part.shape:
        raise StartupError(
            f"{config.path}: {stored.name} has shape {list(stored.shape)}, "
            f"but by the model's configuration it should be {list(part.shape)}"
        )
    return stored.read(part)


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{names[0]} and {len(names) - 1} more weights"
