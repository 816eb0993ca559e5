"""A GGUF file's weights as numbers."""

from collections.abc import Iterator
from pathlib import Path

import torch

from srt.model_loader.gguf_stream import gguf_weights


def decoded_weights(path: Path, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """(Hugging Face's name, tensor), each decoded in float32 and then rounded."""
    for weight in gguf_weights(path):
        yield weight.name, weight.dense().to(dtype)
