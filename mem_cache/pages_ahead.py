"""`PagesAhead`: the memory pages of a pool, made before tokens need them.

A pool in host memory has pages only where it has been touched (kv_pool.py). Neighbouring slots share pages, in all
layers alike. So the step that reaches new ones would wait for dozens of large pages that the system fills with zeros,
in a virtual machine its host as well: a tenth of a second or two.
"""

import ctypes
import logging
import mmap
import os
from concurrent.futures import ThreadPoolExecutor

from mem_cache.kv_pool import KVPool
from mem_cache.page_math import num_pages

HUGE_PAGE = 2 * 2**20
# And never more than an eighth of the pool. Tokens, because a small model's would fill so many bytes in hours.
MOST_AHEAD_BYTES, MOST_AHEAD_TOKENS = 2 * 2**30, 65_536
LEAST_STEPS = 2
NICENESS = 10  # gives way to the model, but is not kept from its turn: it may hold a lock that an allocation waits for
_MADV_POPULATE_WRITE = 23  # Linux 5.14: as if every page were written to, with what is in it

logger = logging.getLogger(__name__)


class PagesAhead:
    """Makes pages in a thread of its own, step after step: a large page of each layer's keys and of its values.

    It works ahead of the tokens, so most pages are made while nobody asks for anything.
    """

    def __init__(self, pool: KVPool) -> None:
        self._tensors = [
            tensor for layer in range(pool.num_layers) for tensor in (pool.keys(layer), pool.values(layer))
        ]
        num_slots = len(pool.keys(0))
        self._slots_a_step = max(HUGE_PAGE // pool.keys(0)[0].nbytes, 1)
        self._num_steps = num_pages(num_slots, self._slots_a_step)
        most_slots = min(MOST_AHEAD_TOKENS, num_slots // 8, MOST_AHEAD_BYTES * num_slots // pool.num_bytes)
        self._num_ahead = max(most_slots // self._slots_a_step, LEAST_STEPS)
        self._asked = 0
        self._madvise = ctypes.CDLL(None, use_errno=True).madvise
        self._thread = ThreadPoolExecutor(1, "pages-ahead", _give_way)
        self.reach(0)

    def reach(self, slot: int) -> None:
        """Tokens are written up to this slot. Cheap; to be told of every step."""
        wanted = min(slot // self._slots_a_step + self._num_ahead, self._num_steps)
        for step in range(self._asked, wanted):
            self._thread.submit(self._make, step)
        self._asked = max(self._asked, wanted)

    def close(self) -> None:
        """Finish what is asked for, and end."""
        self._thread.shutdown()

    def _make(self, step: int) -> None:
        for tensor in self._tensors:
            rows = tensor[step * self._slots_a_step : (step + 1) * self._slots_a_step]
            start = rows.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
            size = ctypes.c_size_t(rows.data_ptr() + rows.nbytes - start)
            if self._madvise(ctypes.c_void_p(start), size, _MADV_POPULATE_WRITE):
                logger.info("KV pages are made when they are needed: errno %d", ctypes.get_errno())
                self._asked = self._num_steps  # it would be no other the next time
                return


def _give_way() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # of this thread
