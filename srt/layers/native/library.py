"""The native kernels as Python functions: signatures, and tensors turned into addresses.

A call holds no lock of the interpreter. Whoever calls keeps the tensors alive and has checked their shapes.
"""

import ctypes
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from pathlib import Path

import torch

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


class KernelLibrary:
    """A built library, loaded."""

    def __init__(self, path: Path) -> None:
        functions = ctypes.CDLL(str(path))
        functions.lockstep_instructions.restype = ctypes.c_char_p
        self.instructions: str = functions.lockstep_instructions().decode()
        self.attend = functions.lockstep_attend
        self.attend.restype = None
        self.attend.argtypes = [POINTER(AttentionBatch), POINTER(AttentionShape), POINTER(AttentionInputs)]
