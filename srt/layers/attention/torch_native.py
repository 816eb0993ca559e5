"""AttentionBackend in plain torch: the reference, and what is used where nothing better is.

Gathers the keys and values that a row may see next to each other, then calls scaled_dot_product_attention, which keeps
its sums in float32. Decode rows go many at a time, prefill rows one by one. What to gather and what to mask is
worked out once a batch for each window length that occurs, not once a layer.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812

from mem_cache.kv_pool import KVPool
from srt.forward_batch import ForwardBatch
from srt.layers.attention.backend import AttentionShape
from srt.layers.attention.decode_buckets import DecodeBucket, plan_buckets

MAX_BUCKET_POSITIONS = 32768  # gathered keys of a bucket stay a few megabytes


def make_backend(pool: KVPool) -> "TorchNativeBackend":
    """For srt/layers/attention/registry.py."""
    return TorchNativeBackend(pool)


class TorchNativeBackend:
    """AttentionBackend over one pool. Keeps two buffers to gather into, as large as was ever needed."""

    def __init__(self, pool: KVPool) -> None:
        self._gathered = _GatherBuffers(pool)

    def prepare(self, batch: ForwardBatch) -> "TorchNativeAttention":
        """The plans themselves are made when the first layer of each window asks."""
        return TorchNativeAttention(batch, self._gathered)


class TorchNativeAttention:
    """PreparedAttention of one batch."""

    def __init__(self, batch: ForwardBatch, gathered: "_GatherBuffers") -> None:
        self._batch = batch
        self._gathered = gathered
        self._plans: dict[int | None, _WindowPlan] = {}

    def attend(
        self, shape: AttentionShape, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """(T, heads, head_dim) each to (T, num_heads · head_dim)."""
        pool = self._gathered.pool
        pool.write(shape.layer, self._batch.out_slots, keys, values)
        plan = self._plans.get(shape.window)
        if plan is None:
            plan = self._plans[shape.window] = _plan_window(self._batch, shape.window, queries.dtype)
        outputs = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
        for decode in plan.decodes:
            self._attend_decode(shape, decode, queries, outputs)
        for prefill in plan.prefills:
            new = slice(prefill.start, prefill.stop)
            if prefill.slots is None:
                row_keys, row_values = keys[new], values[new]
            else:
                row_keys, row_values = self._gathered.read(shape.layer, prefill.slots)
            outputs[new] = _attend_prefill(shape, prefill.mask, queries[new], row_keys, row_values)
        return outputs.flatten(1)

    def _attend_decode(
        self, shape: AttentionShape, plan: "_DecodePlan", queries: torch.Tensor, outputs: torch.Tensor
    ) -> None:
        num_rows = plan.num_rows
        keys, values = self._gathered.read(shape.layer, plan.slots)
        per_row = (num_rows, plan.span, shape.num_kv_heads, shape.head_dim)
        # The query heads of a group stand where queries of several tokens would: nothing is copied for them.
        grouped = (num_rows, shape.num_kv_heads, shape.num_heads // shape.num_kv_heads, shape.head_dim)
        attended = _attend_to(
            shape,
            queries[plan.rows].reshape(grouped),
            keys.view(per_row).transpose(1, 2),
            values.view(per_row).transpose(1, 2),
            mask=plan.mask,
            is_causal=False,
        )
        outputs[plan.rows] = attended.reshape(num_rows, shape.num_heads, shape.head_dim)


def _attend_prefill(
    shape: AttentionShape,
    mask: torch.Tensor | None,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """One row; without a mask its first query meets its first key."""
    attended = _attend_to(
        shape,
        queries.transpose(0, 1).unsqueeze(0),
        keys.transpose(0, 1).unsqueeze(0),
        values.transpose(0, 1).unsqueeze(0),
        mask=mask,
        is_causal=mask is None,
    )
    return attended.squeeze(0).transpose(0, 1)


def _attend_to(
    shape: AttentionShape,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    mask: torch.Tensor | None,
    is_causal: bool,
) -> torch.Tensor:
    """(rows, heads, tokens, head_dim) each."""
    num_groups = queries.shape[1] // keys.shape[1]
    if shape.soft_cap is None:
        return F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=mask,
            is_causal=is_causal,
            scale=shape.scale,
            enable_gqa=num_groups > 1,
        )
    keys, values = keys.repeat_interleave(num_groups, 1), values.repeat_interleave(num_groups, 1)
    scores = queries.float() @ keys.float().transpose(-1, -2) * shape.scale
    scores = shape.soft_cap * torch.tanh(scores / shape.soft_cap)
    if is_causal:
        mask = _mask(torch.ones_like(scores, dtype=torch.bool).triu(1), scores.dtype)
    if mask is not None:
        scores = scores + mask
    return (scores.softmax(-1) @ values.float()).to(queries.dtype)


@dataclass(frozen=True, slots=True)
class _DecodePlan:
    """A bucket of rows with one query each."""

    rows: torch.Tensor | slice  # where their queries are
    num_rows: int
    span: int
    slots: torch.Tensor  # (num_rows · span,) slots to gather; 0 where a row is shorter
    mask: torch.Tensor | None  # (num_rows, 1, 1, span) to add to the scores; None: all rows are equally long


@dataclass(frozen=True, slots=True)
class _PrefillPlan:
    """A row with several queries: tokens [start, stop) of the batch."""

    start: int
    stop: int
    slots: torch.Tensor | None  # slots to gather; None: the row sees its own new tokens only
    mask: torch.Tensor | None  # (new tokens, gathered) to add to the scores; None: plainly causal


@dataclass(frozen=True, slots=True)
class _WindowPlan:
    """A batch as seen by all layers with one window."""

    decodes: list[_DecodePlan]
    prefills: list[_PrefillPlan]


def _plan_window(batch: ForwardBatch, window: int | None, dtype: torch.dtype) -> _WindowPlan:
    spans = [_num_seen(seq_len, window) for seq_len in batch.seq_lens_host[: batch.num_decode_rows]]
    buckets = plan_buckets(spans, max_positions=MAX_BUCKET_POSITIONS)
    decodes = [_plan_decode(batch, bucket, window, dtype) for bucket in buckets]
    prefills = []
    start = batch.num_decode_rows
    for row in range(batch.num_decode_rows, batch.num_rows):
        stop = start + batch.row_lens_host[row]
        prefills.append(_plan_prefill(batch, row, start, stop, window, dtype))
        start = stop
    return _WindowPlan(decodes, prefills)


def _num_seen(seq_len: int, window: int | None) -> int:
    return seq_len if window is None else min(seq_len, window)


def _plan_decode(
    batch: ForwardBatch, bucket: DecodeBucket, window: int | None, dtype: torch.dtype
) -> _DecodePlan:
    device = batch.slot_table.device
    num_rows, span = len(bucket.rows), bucket.span
    rows: torch.Tensor | slice = slice(bucket.rows[0], bucket.rows[0] + num_rows)
    if bucket.rows[-1] != bucket.rows[0] + num_rows - 1:
        rows = torch.tensor(bucket.rows, device=device)
    seq_lens = [batch.seq_lens_host[row] for row in bucket.rows]
    if window is None or max(seq_lens) <= window:
        slots = batch.slot_table[rows, :span]
    else:
        starts = torch.tensor([max(n - window, 0) for n in seq_lens], device=device)
        columns = starts.unsqueeze(1) + torch.arange(span, device=device)
        slots = batch.slot_table[rows].gather(1, columns.clamp_(max=batch.slot_table.shape[1] - 1))
    seen = [_num_seen(n, window) for n in seq_lens]
    mask = None
    if min(seen) < span:
        is_padding = torch.arange(span, device=device) >= torch.tensor(seen, device=device).unsqueeze(1)
        slots = slots.masked_fill(is_padding, 0)
        mask = _mask(is_padding, dtype).view(num_rows, 1, 1, span)
    return _DecodePlan(rows, num_rows, span, slots.flatten(), mask)


def _plan_prefill(
    batch: ForwardBatch, row: int, start: int, stop: int, window: int | None, dtype: torch.dtype
) -> _PrefillPlan:
    seq_len, num_new = batch.seq_lens_host[row], stop - start
    first_new = seq_len - num_new
    sees_all = window is None or seq_len <= window
    if first_new == 0 and sees_all:
        return _PrefillPlan(start, stop, slots=None, mask=None)
    device = batch.slot_table.device
    first_seen = 0 if window is None else max(first_new - window + 1, 0)
    positions = torch.arange(first_seen, seq_len, device=device)
    own = torch.arange(first_new, seq_len, device=device).unsqueeze(1)
    is_hidden = positions > own
    if window is not None:
        is_hidden |= positions <= own - window
    return _PrefillPlan(start, stop, batch.slot_table[row, first_seen:seq_len], _mask(is_hidden, dtype))


def _mask(is_hidden: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What to add to the scores, in the type that the attention kernel takes without converting it each time."""
    return torch.zeros(is_hidden.shape, dtype=dtype, device=is_hidden.device).masked_fill_(
        is_hidden, float("-inf")
    )


class _GatherBuffers:
    """Keys and values of listed slots, side by side.

    The buffers are kept between layers and steps: fresh ones would be mapped in page by page each time.
    """

    def __init__(self, pool: KVPool) -> None:
        self.pool = pool
        self._keys = self._values = pool.keys(0).new_empty(0, *pool.keys(0).shape[1:])

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(len(slots), num_kv_heads, head_dim) each, valid until the next call."""
        num_slots = slots.shape[0]
        if num_slots > self._keys.shape[0]:
            shape = (num_slots, *self._keys.shape[1:])
            self._keys, self._values = self._keys.new_empty(shape), self._keys.new_empty(shape)
        keys, values = self._keys[:num_slots], self._values[:num_slots]
        torch.index_select(self.pool.keys(layer), 0, slots, out=keys)
        torch.index_select(self.pool.values(layer), 0, slots, out=values)
        return keys, values
