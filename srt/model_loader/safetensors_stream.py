"""Yield the tensors of a Hugging Face folder, one after another, without holding a file.

A tensor is read when it is asked for, and of it only the slice that is asked for.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from srt.configs.json_file import read_json
from srt.errors import StartupError
from srt.model_loader.shard import Slice, StoredTensor

INDEX = "model.safetensors.index.json"
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def safetensors_weights(folder: Path) -> Iterator[StoredTensor]:
    """Every tensor. Valid until the next is taken. Raises StartupError for a missing or damaged file."""
    for path in find_shards(folder):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 (not a dict)
                    yield _stored_tensor(path, file, name)
        except SafetensorError as error:
            raise StartupError(f"{path} is damaged or incomplete: {error}") from None
        except OSError as error:
            raise StartupError(f"{path} cannot be read: {error}") from None


def find_shards(folder: Path) -> list[Path]:
    """The files that hold the weights. Raises StartupError if one that the index names is missing, or all are."""
    index_path = folder / INDEX
    if index_path.exists():
        weight_map = read_json(index_path).child("weight_map")
        names = sorted(set(weight_map.values.values())) if weight_map is not None else []
        missing = [name for name in names if not (folder / name).exists()]
        if missing:
            raise StartupError(f"{index_path} names {missing[0]}, which does not exist")
        if names:
            return [folder / name for name in names]
    single = folder / "model.safetensors"
    if single.exists():
        return [single]
    # "consolidated" files hold the same weights under the names of another library.
    shards = [path for path in sorted(folder.glob("*.safetensors")) if "consolidated" not in path.name]
    if not shards:
        raise StartupError(f"{folder} holds no safetensors weights")
    return shards


def _stored_tensor(path: Path, file: Any, name: str) -> StoredTensor:
    stored = file.get_slice(name)

    def read(part: Slice) -> torch.Tensor:
        start, stop = part.span
        match part.dim:
            case None:
                tensor = stored[:]
            case 0:
                tensor = stored[start:stop]
            case _:
                tensor = stored[:, start:stop]
        if tensor.dtype not in FLOATS:
            raise StartupError(f"{path}: {name} is stored as {tensor.dtype}, which is not supported")
        return torch.as_tensor(tensor)

    return StoredTensor(name, tuple(stored.get_shape()), read)
