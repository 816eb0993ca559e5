"""The native kernels as Python functions: signatures, and tensors turned into addresses.

A call holds no lock of the interpreter. Whoever calls keeps the tensors alive and has checked their shapes.
"""

import ctypes
import logging
import os
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any, cast

import torch

from srt.distributed.shared_memory import Seat
from srt.env import wants_amx

logger = logging.getLogger(__name__)

PAIRS_OF_BFLOAT16 = 0  # how a part of a Matrix is packed
QUANTIZED = {
    "Q4_0": 1,
    "Q4_1": 2,
    "Q5_0": 3,
    "Q5_1": 4,
    "Q8_0": 5,
    "Q4_K": 6,
    "Q5_K": 7,
    "Q6_K": 8,
}  # the others
MAX_PARTS = 3
NO_TILES, TILES, WRONG_TILES = 0, 1, 2  # what was found of AMX
VALUE_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}


class AttentionBatch(Structure):
    """One batch as all layers see it. Tensors by address: their owner keeps them."""

    _fields_ = [
        ("row_starts", c_void_p),
        ("seq_lens", c_void_p),
        ("slot_table", c_void_p),
        ("table_stride", c_int64),
        ("out_slots", c_void_p),
        ("num_rows", c_int32),
        ("num_tokens", c_int32),
        ("num_threads", c_int32),
    ]


class AttentionShape(Structure):
    """One layer."""

    _fields_ = [
        ("key_pool", c_void_p),
        ("value_pool", c_void_p),
        ("num_heads", c_int32),
        ("num_kv_heads", c_int32),
        ("head_dim", c_int32),
        ("window", c_int32),
        ("scale", c_float),
        ("soft_cap", c_float),
        ("value_type", c_int32),
    ]


class AttentionInputs(Structure):
    """One call. Strides count values, from one token to the next."""

    _fields_ = [
        ("queries", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("outputs", c_void_p),
        ("query_stride", c_int64),
        ("key_stride", c_int64),
        ("value_stride", c_int64),
    ]


class MatrixPart(Structure):
    """Some outputs of a packed weight."""

    _fields_ = [("packed", c_void_p), ("num_outputs", c_int32), ("kind", c_int32)]


class Matrix(Structure):
    """A packed weight, its bias (0: none), (num_outputs, num_inputs)."""

    _fields_ = [
        ("parts", MatrixPart * MAX_PARTS),
        ("bias", c_void_p),
        ("num_parts", c_int32),
        ("num_outputs", c_int32),
        ("num_inputs", c_int32),
        ("first_group", c_int32),
    ]


class Levels(Structure):
    """A quantised weight before it is packed."""

    _fields_ = [
        ("levels", c_void_p),
        ("scales", c_void_p),
        ("minimums", c_void_p),
        ("scale_factors", c_void_p),
        ("minimum_factors", c_void_p),
    ]


class LayerWeights(Structure):
    """One decoder layer. Norms of queries and keys: 0 for none."""

    _fields_ = [
        ("qkv", Matrix),
        ("out", Matrix),
        ("gate_up", Matrix),
        ("down", Matrix),
        ("attention_norm", c_void_p),
        ("mlp_norm", c_void_p),
        ("query_norm", c_void_p),
        ("key_norm", c_void_p),
        ("shape", POINTER(AttentionShape)),
        ("eps", c_float),
        ("hidden_size", c_int32),
    ]


class LayerBatch(Structure):
    """One batch as decoder layers see it. `wanted_starts`: of the last tokens that are wanted; 0: all tokens are."""

    _fields_ = [
        ("attention", POINTER(AttentionBatch)),
        ("cosines", c_void_p),
        ("sines", c_void_p),
        ("rotary_dim", c_int32),
        ("wanted_starts", c_void_p),
    ]


class KernelLibrary:
    """A built library, loaded."""

    num_threads: int | None = None  # of a call; None: as many as torch has

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        describe = _function(library.lockstep_instructions, [], c_char_p)
        self.instructions: str = describe().decode()
        self.multiplies_bfloat16 = self.instructions == "AVX-512 with bfloat16"  # in hardware
        tiles = _function(library.lockstep_start_tiles, [c_int32], c_int32)(wants_amx())
        self.knows_tiles = tiles != NO_TILES  # used or not
        self.uses_tiles = wants_amx() and may_use_tiles(tiles)
        if self.uses_tiles:
            self.instructions += ", AMX"
        self.repeat_products = _function(library.lockstep_repeat_products, [c_int32], c_int64)
        self.has_vectors = self.instructions != "no vector instructions known of"
        self.attend = _function(
            library.lockstep_attend,
            [POINTER(AttentionBatch), POINTER(AttentionShape), POINTER(AttentionInputs)],
        )
        self.layers = _function(
            library.lockstep_layers,
            [POINTER(LayerWeights), c_int32, POINTER(LayerBatch), c_void_p, POINTER(Seat)],
            c_int32,
        )
        half = [POINTER(LayerWeights), POINTER(LayerBatch), c_void_p, c_void_p]
        self.attention_block = _function(library.lockstep_attention_block, half)
        self.mlp_block = _function(library.lockstep_mlp_block, half)
        self.head = _function(
            library.lockstep_head,
            [POINTER(Matrix), c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_void_p, c_int32],
        )
        self.packed_bytes = _function(library.lockstep_packed_bytes, [c_int32] * 4, c_int64)
        self.pack = _function(library.lockstep_pack, [c_void_p, c_int32, c_int32, c_void_p])
        self.pack_levels = _function(
            library.lockstep_pack_levels,
            [c_int32, POINTER(Levels), c_int32, c_int32, c_int32, c_void_p],
        )
        self.look_up = _function(library.lockstep_look_up, [POINTER(Matrix), c_void_p, c_int32, c_void_p])
        self.sample = _function(
            library.lockstep_sample,
            [c_void_p, c_int32, c_int64, c_int32, c_int32, c_char_p, c_void_p, c_int32],
        )
        # What ranks do together: srt/distributed/shared_memory.py.
        seat = POINTER(Seat)
        self.rank_memory = _function(library.lockstep_rank_memory, [c_int32], c_int64)
        self.add_up = _function(library.lockstep_add_up, [seat, c_void_p, c_int64, c_int32], c_int32)
        self.side_by_side = _function(
            library.lockstep_side_by_side, [seat, c_void_p, c_int64, c_int64, c_void_p], c_int32
        )
        self.tell = _function(library.lockstep_tell, [seat, c_void_p, c_int64], c_int32)

    def threads(self) -> int:
        """How many share the work of a call."""
        return self.num_threads or torch.get_num_threads()


def may_use_tiles(found: int) -> bool:
    """Of what the library found when it looked for AMX. Why it is not used where there is one, the log says."""
    if found < 0:
        logger.warning("products without AMX: the system does not permit it: %s", os.strerror(-found))
    elif found == WRONG_TILES:
        logger.warning("products without AMX: at start it gave other products than AVX-512")
    return found == TILES


def _function(symbol: Any, arguments: list[Any], result: Any = None) -> Callable[..., Any]:
    symbol.argtypes, symbol.restype = arguments, result
    return cast(Callable[..., Any], symbol)
