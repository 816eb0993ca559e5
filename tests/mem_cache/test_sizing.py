import pytest

from mem_cache.sizing import kv_bytes_per_token, num_pool_slots, num_tokens_that_fit, table_bytes


def test_a_token_costs_keys_and_values_in_every_layer() -> None:
    smollm2 = kv_bytes_per_token(num_layers=30, num_kv_heads=3, head_dim=64, bytes_per_value=2)
    assert smollm2 == 2 * 30 * 3 * 64 * 2


@pytest.mark.parametrize(
    ("num_bytes", "page_size", "at_most", "fits"),
    [(1000, 1, None, 99), (1000, 16, None, 80), (1000, 1, 50, 50), (1000, 16, 50, 48), (5, 1, None, 0)],
)
def test_the_pool_with_its_padding_page_stays_within_its_bytes(
    num_bytes: int, page_size: int, at_most: int | None, fits: int
) -> None:
    capacity = num_tokens_that_fit(num_bytes, bytes_per_token=10, page_size=page_size, at_most=at_most)
    assert capacity == fits
    assert capacity == 0 or num_pool_slots(capacity, page_size) * 10 <= num_bytes


def test_a_table_entry_costs_four_bytes() -> None:
    assert table_bytes(num_rows=8, context_length=100) == 3200
