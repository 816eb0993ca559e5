"""A pool's pages exist before tokens reach them, and what is in them stays."""

import ctypes
import mmap

import torch

from mem_cache.kv_pool import KVPool
from mem_cache.pages_ahead import HUGE_PAGE, PagesAhead

SLOTS_A_STEP = HUGE_PAGE // 128
NUM_SLOTS = 5 * SLOTS_A_STEP + 100


def make_pool() -> KVPool:
    return KVPool(
        num_layers=2, num_slots=NUM_SLOTS, num_kv_heads=2, head_dim=32, dtype=torch.bfloat16, device="cpu"
    )


def num_resident(pool: KVPool) -> list[int]:
    """Slots of each tensor whose page exists, of those whose page is a whole one."""
    counts = []
    for tensor in (read(layer) for layer in range(pool.num_layers) for read in (pool.keys, pool.values)):
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        num_pages = (tensor.data_ptr() + tensor.nbytes - start) // mmap.PAGESIZE
        there = (ctypes.c_ubyte * num_pages)()
        assert (
            ctypes.CDLL(None).mincore(
                ctypes.c_void_p(start), ctypes.c_size_t(num_pages * mmap.PAGESIZE), there
            )
            == 0
        )
        counts.append(sum(page & 1 for page in there) * (mmap.PAGESIZE // 128))
    return counts


def test_pages_are_made_ahead_of_the_slots_and_not_all_at_once() -> None:
    pool = make_pool()
    before = num_resident(pool)  # of memory that was used and freed, some are there
    pages = PagesAhead(pool)
    pages.close()
    at_first = num_resident(pool)
    pages = PagesAhead(pool)
    pages.reach(2 * SLOTS_A_STEP)
    pages.close()
    later = num_resident(pool)
    assert all(count > 1.9 * SLOTS_A_STEP for count in at_first), at_first
    assert all(count > 3.9 * SLOTS_A_STEP for count in later), later
    made = [now - then for now, then in zip(at_first, before, strict=True)]
    assert all(count < 3.1 * SLOTS_A_STEP for count in made), made


def test_the_last_slot_asks_for_no_more_than_there_is_and_nothing_is_lost() -> None:
    pool = make_pool()
    rows = torch.randn(2, 2, 32).bfloat16()
    slots = torch.tensor([3, 3 * SLOTS_A_STEP])
    pool.write(1, slots, rows, -rows)
    pages = PagesAhead(pool)
    pages.reach(NUM_SLOTS - 1)
    pages.close()
    assert all(count > NUM_SLOTS - 2 * mmap.PAGESIZE // 128 for count in num_resident(pool))
    assert torch.equal(pool.keys(1)[slots], rows)
    assert torch.equal(pool.values(1)[slots], -rows)
    assert int(pool.keys(1).count_nonzero()) == rows.numel()
