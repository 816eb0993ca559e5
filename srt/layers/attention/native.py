"""AttentionBackend in C++ for CPUs: reads keys and values where they are.

What a token's output is depends on its query and on the keys it sees, bit for bit: not on the rows beside it,
not on how its prompt was cut into chunks, not on the number of threads.

Next on the request's path: srt/layers/lm_head.py
"""

from ctypes import byref

import torch

from mem_cache.kv_pool import KVPool
from srt.forward_batch import ForwardBatch
from srt.layers.attention.backend import AttentionShape
from srt.layers.native import library as native
from srt.layers.native.load import kernels

MAX_HEAD_DIM = 1024


def make_backend(pool: KVPool) -> "NativeBackend":
    """For srt/layers/attention/registry.py."""
    return NativeBackend(pool, kernels())


class NativeBackend:
    """AttentionBackend over one pool."""

    def __init__(self, pool: KVPool, library: native.KernelLibrary) -> None:
        self._pool = pool
        self._library = library
        self._shapes: dict[AttentionShape, native.AttentionShape] = {}

    def prepare(self, batch: ForwardBatch) -> "NativeAttention":
        """Hands the kernel the batch's tensors as they are."""
        return NativeAttention(batch, self, self._library)

    def shape(self, shape: AttentionShape) -> native.AttentionShape:
        """The same for the kernel; layers are the same in every batch."""
        found = self._shapes.get(shape)
        if found is None:
            found = self._shapes[shape] = self._native_shape(shape)
        return found

    def _native_shape(self, shape: AttentionShape) -> native.AttentionShape:
        keys, values = self._pool.keys(shape.layer), self._pool.values(shape.layer)
        assert shape.head_dim <= MAX_HEAD_DIM, f"heads of {shape.head_dim} values are too large"
        assert keys.is_contiguous(), "the kernel counts slots from the first"
        assert values.is_contiguous(), "the kernel counts slots from the first"
        return native.AttentionShape(
            key_pool=keys.data_ptr(),
            value_pool=values.data_ptr(),
            num_heads=shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            window=shape.window or 0,
            scale=shape.scale,
            soft_cap=shape.soft_cap or 0.0,
            value_type=native.VALUE_TYPES[keys.dtype],
        )


class NativeAttention:
    """PreparedAttention of one batch."""

    def __init__(self, batch: ForwardBatch, backend: NativeBackend, library: native.KernelLibrary) -> None:
        self.backend = backend
        self._attend = library.attend
        # Kept, for the kernel sees addresses only.
        self._tensors = (batch.row_starts, batch.seq_lens, batch.slot_table, batch.out_slots)
        self.wanted_starts = find_wanted(batch)
        assert all(tensor.is_contiguous() for tensor in self._tensors), "a batch's tensors are contiguous"
        self.batch = native.AttentionBatch(
            row_starts=batch.row_starts.data_ptr(),
            seq_lens=batch.seq_lens.data_ptr(),
            slot_table=batch.slot_table.data_ptr(),
            table_stride=batch.slot_table.shape[1],
            out_slots=batch.out_slots.data_ptr(),
            num_rows=batch.num_rows,
            num_tokens=batch.num_tokens,
            num_threads=library.threads(),
        )

    def attend(
        self, shape: AttentionShape, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """(T, heads, head_dim) each to (T, num_heads · head_dim)."""
        queries, keys, values = _heads_together(queries), _heads_together(keys), _heads_together(values)
        outputs = torch.empty(
            (queries.shape[0], shape.num_heads * shape.head_dim), dtype=queries.dtype, device=queries.device
        )
        inputs = native.AttentionInputs(
            queries.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            outputs.data_ptr(),
            queries.stride(0),
            keys.stride(0),
            values.stride(0),
        )
        self._attend(byref(self.batch), byref(self.backend.shape(shape)), byref(inputs))
        return outputs


def find_wanted(batch: ForwardBatch) -> torch.Tensor | None:
    """(B + 1,) int32: of how many rows before each the last token is wanted. None: other tokens are, too, or all."""
    if batch.also_reads is not None or batch.num_tokens == batch.num_rows:
        return None
    ends = batch.row_starts[1:] - 1
    wanted = torch.cat([batch.logit_rows, batch.greedy_rows])
    if not bool(torch.isin(wanted, ends).all()):
        return None
    starts = torch.zeros_like(batch.row_starts)
    torch.cumsum(torch.isin(ends, wanted), 0, dtype=torch.int32, out=starts[1:])
    return starts


def _heads_together(vectors: torch.Tensor) -> torch.Tensor:
    """A token's heads must stand one behind the other; what lies between two tokens does not matter."""
    _, num_heads, head_dim = vectors.shape
    is_packed = vectors.stride(2) == 1 and (num_heads == 1 or vectors.stride(1) == head_dim)
    return vectors if is_packed else vectors.contiguous()
