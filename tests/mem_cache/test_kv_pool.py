"""Keys and values stay where they were written."""

import torch

from mem_cache.kv_pool import CACHE_LINE, KVPool


def test_a_write_touches_its_layer_and_slots_only() -> None:
    pool = KVPool(num_layers=2, num_slots=5, num_kv_heads=1, head_dim=2, dtype=torch.float32, device="cpu")
    keys, values = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), torch.tensor([[[5.0, 6.0]], [[7.0, 8.0]]])
    pool.write(1, torch.tensor([4, 2]), keys, values)
    assert pool.keys(1).flatten(1).tolist() == [[0, 0], [0, 0], [3, 4], [0, 0], [1, 2]]
    assert pool.values(1).flatten(1).tolist() == [[0, 0], [0, 0], [7, 8], [0, 0], [5, 6]]
    assert not pool.keys(0).any()
    assert not pool.values(0).any()


def test_bytes_count_keys_and_values_of_every_layer() -> None:
    pool = KVPool(num_layers=3, num_slots=5, num_kv_heads=2, head_dim=4, dtype=torch.bfloat16, device="cpu")
    assert pool.num_bytes == 2 * 3 * 5 * 2 * 4 * 2


def test_keys_and_values_begin_with_a_cache_line() -> None:
    pool = KVPool(num_layers=2, num_slots=5, num_kv_heads=1, head_dim=2, dtype=torch.bfloat16, device="cpu")
    tensors = [read(layer) for layer in range(2) for read in (pool.keys, pool.values)]
    assert [tensor.data_ptr() % CACHE_LINE for tensor in tensors] == [0] * 4
