"""Read a GGUF file's header: metadata and where each tensor lies. Tensor bytes are mapped, never copied here.

Knows the container only, not what a model's metadata means. The format: the GGUF specification, versions 2 and 3.
"""

import struct
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from srt.errors import StartupError

MAGIC = b"GGUF"
SUPPORTED_VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_DIMENSIONS = 4

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class BlockType:
    """How a tensor type stores its numbers: `block_size` of them in `num_bytes` bytes."""

    name: str
    block_size: int
    num_bytes: int


# Type id in the file → layout, for the types that can be decoded.
BLOCK_TYPES = {
    0: BlockType("F32", 1, 4),
    1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22),
    7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34),
    10: BlockType("Q2_K", 256, 84),
    11: BlockType("Q3_K", 256, 110),
    12: BlockType("Q4_K", 256, 144),
    13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210),
    16: BlockType("IQ2_XXS", 256, 66),
    17: BlockType("IQ2_XS", 256, 74),
    18: BlockType("IQ3_XXS", 256, 98),
    19: BlockType("IQ1_S", 256, 50),
    20: BlockType("IQ4_NL", 32, 18),
    21: BlockType("IQ3_S", 256, 110),
    22: BlockType("IQ2_S", 256, 82),
    23: BlockType("IQ4_XS", 256, 136),
    29: BlockType("IQ1_M", 256, 56),
    30: BlockType("BF16", 1, 2),
    34: BlockType("TQ1_0", 256, 54),
    35: BlockType("TQ2_0", 256, 66),
    39: BlockType("MXFP4", 32, 17),
}
# The others only have a name, so that an error can say it.
OTHER_TYPES = {9: "Q8_1", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 40: "NVFP4"}

# Metadata value type → numpy spelling; the remaining two are strings and arrays.
_NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor. `shape` is row-major, as PyTorch has it: the file lists the dimensions the other way round."""

    name: str
    shape: tuple[int, ...]
    type: BlockType
    data: Bytes  # mapped, read-only


class GgufFile:
    """A whole, checked header. Typed look-ups raise StartupError that names the key."""

    def __init__(self, path: Path, metadata: dict[str, Any], tensors: dict[str, GgufTensor]) -> None:
        self.path = path
        self.metadata = metadata
        self.tensors = tensors

    def text(self, key: str, default: str | None = None) -> str:
        """A string; without a default it must be there."""
        value = self._get(key, default)
        if not isinstance(value, str):
            raise StartupError(f"{self.path}: {key} is not a text")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number. An array of equal numbers (one a layer) counts as that number."""
        value = self._get(key, default)
        if isinstance(value, list) and len(set(value)) == 1:
            value = value[0]
        if isinstance(value, list):
            raise StartupError(f"{self.path}: {key} differs from layer to layer, which is not supported")
        if not isinstance(value, int):
            raise StartupError(f"{self.path}: {key} is not a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Any number."""
        value = self._get(key, default)
        if not isinstance(value, int | float):
            raise StartupError(f"{self.path}: {key} is not a number")
        return float(value)

    def _get(self, key: str, default: Any) -> Any:
        value = self.metadata.get(key, default)
        if value is None:
            raise StartupError(f"{self.path}: the metadata lacks {key}")
        return value


def read_gguf(path: Path) -> GgufFile:
    """Map the file and read its header. Raises StartupError if it is not a whole GGUF that we can read."""
    try:
        size = path.stat().st_size
        mapped = np.memmap(path, dtype=np.uint8, mode="r") if size else np.zeros(0, np.uint8)
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror}") from error
    try:
        return _read(path, mapped.view(np.ndarray))
    except _Truncated as error:
        raise StartupError(f"{path} is cut short", hint="download it again") from error
    except _Malformed as error:
        raise StartupError(f"{path} cannot be read: {error}") from error


class _Truncated(Exception):
    pass


class _Malformed(Exception):
    pass


def _read(path: Path, mapped: Bytes) -> GgufFile:
    cursor = _Cursor(mapped)
    _check_magic(cursor)
    num_tensors, num_entries = cursor.number("<u8"), cursor.number("<u8")
    metadata: dict[str, Any] = {}
    for _ in range(num_entries):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.number("<u4"))
    if metadata.get("split.count", 1) != 1:
        raise _Malformed("it is one part of a split model; join the parts with llama-gguf-split --merge")
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise _Malformed(f"general.alignment is {alignment}")
    entries = [cursor.tensor_entry() for _ in range(num_tensors)]
    data_start = -(-cursor.position // alignment) * alignment
    tensors = {entry[0]: _locate(mapped, data_start, *entry) for entry in entries}
    return GgufFile(path, metadata, tensors)


def _check_magic(cursor: "_Cursor") -> None:
    if bytes(cursor.take(4)) != MAGIC:
        raise _Malformed("it is no GGUF file")
    version = cursor.number("<u4")
    if version not in SUPPORTED_VERSIONS:
        # A big-endian file shows its version with the bytes swapped.
        order = " (a big-endian file?)" if version & 0xFFFF == 0 else ""
        raise _Malformed(f"GGUF version {version}{order} is not supported, only {SUPPORTED_VERSIONS}")


def _locate(
    mapped: Bytes, data_start: int, name: str, shape: tuple[int, ...], type_id: int, offset: int
) -> GgufTensor:
    block_type = BLOCK_TYPES.get(type_id)
    if block_type is None:
        type_name = OTHER_TYPES.get(type_id, f"number {type_id}")
        known = ", ".join(known.name for known in BLOCK_TYPES.values())
        raise _Malformed(f"tensor {name} has type {type_name}; supported are {known}")
    row_length = shape[-1] if shape else 1
    if row_length % block_type.block_size:
        raise _Malformed(f"tensor {name} has rows of {row_length}, not a multiple of {block_type.block_size}")
    num_values = 1
    for length in shape:
        num_values *= length
    start = data_start + offset
    end = start + num_values // block_type.block_size * block_type.num_bytes
    if end > mapped.size:
        raise _Truncated
    return GgufTensor(name, shape, block_type, mapped[start:end])


class _Cursor:
    """Reads values one after another; never past the end."""

    def __init__(self, mapped: Bytes) -> None:
        self._view = mapped.data
        self.position = 0

    def take(self, num_bytes: int) -> memoryview:
        end = self.position + num_bytes
        if end > len(self._view):
            raise _Truncated
        taken = self._view[self.position : end]
        self.position = end
        return taken

    def number(self, kind: str) -> Any:
        return self.numbers(kind, 1)[0]

    def numbers(self, kind: str, count: int) -> list[Any]:
        return np.frombuffer(self.take(np.dtype(kind).itemsize * count), dtype=kind).tolist()  # type: ignore[no-any-return]

    def string(self) -> str:
        return str(self.take(self.number("<u8")), "utf-8", "replace")

    def value(self, value_type: int) -> Any:
        if value_type == _STRING:
            return self.string()
        if value_type == _ARRAY:
            return self._array()
        if value_type in _NUMBERS:
            return self.number(_NUMBERS[value_type])
        raise _Malformed(f"the metadata holds a value of unknown type {value_type}")

    def _array(self) -> list[Any]:
        element_type, count = self.number("<u4"), self.number("<u8")
        if element_type in _NUMBERS:
            return self.numbers(_NUMBERS[element_type], count)
        if element_type == _STRING:
            return self._strings(count)
        raise _Malformed(f"the metadata holds an array of unknown type {element_type}")

    def _strings(self, count: int) -> list[str]:
        # The vocabulary and its merges: hundreds of thousands of strings, so this loop is written for speed.
        view, position, size = self._view, self.position, len(self._view)
        read_length = partial(struct.unpack_from, "<Q", view)
        strings: list[str] = []
        try:
            for _ in range(count):
                start = position + 8
                position = start + read_length(position)[0]
                if position > size:
                    raise _Truncated
                strings.append(str(view[start:position], "utf-8", "replace"))
        except struct.error as error:
            raise _Truncated from error
        self.position = position
        return strings

    def tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.string()
        num_dimensions = self.number("<u4")
        if num_dimensions > MAX_DIMENSIONS:
            raise _Malformed(f"tensor {name} has {num_dimensions} dimensions")
        dimensions = self.numbers("<u8", num_dimensions)
        return name, tuple(reversed(dimensions)), self.number("<u4"), self.number("<u8")
