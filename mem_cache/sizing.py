"""Bytes that a token's KV costs, and how many tokens fit. Arithmetic only."""

from mem_cache.page_math import round_down


def kv_bytes_per_token(*, num_layers: int, num_kv_heads: int, head_dim: int, bytes_per_value: int) -> int:
    """Keys and values of one token over all layers; `num_kv_heads` are the heads of this rank."""
    return 2 * num_layers * num_kv_heads * head_dim * bytes_per_value


def num_tokens_that_fit(
    num_bytes: int, *, bytes_per_token: int, page_size: int, at_most: int | None = None
) -> int:
    """Capacity in whole pages that `num_bytes` hold beside the page where padding writes; 0 when none fits."""
    assert bytes_per_token > 0, "a token's KV costs something"
    num_tokens = max(num_bytes // bytes_per_token - page_size, 0)
    if at_most is not None:
        num_tokens = min(num_tokens, at_most)
    return round_down(num_tokens, page_size)


def num_pool_slots(capacity: int, page_size: int) -> int:
    """Slots that the KV pool must have, so that slot numbers up to `capacity` and the padding page fit."""
    return capacity + page_size


def table_bytes(num_rows: int, context_length: int) -> int:
    """Most that a request table takes; it grows to this as rows are used."""
    return 4 * num_rows * context_length
