"""What becomes of memory that is freed, with glibc: kept for the next step, and given back when none comes."""

import ctypes
import time
from collections.abc import Callable

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
MOST_KEPT = 512 * 2**20
# Without work, and with no end of it.
IDLE_S, BUSY_S = 60.0, 60.0


def keep_freed_memory() -> bool:
    """Up to `MOST_KEPT` bytes stay with this process from now on; whether they do.

    By itself, glibc gives large pieces back and gets others, all of whose pages the system must fill with zeros: for
    the logits of 256 requests, in every step, that took as long as the step itself.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not where the C library is another
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, MOST_KEPT))


def give_back_freed_memory() -> None:
    """All that is kept and whole pages, between what is in use, too. Takes milliseconds; what is used again costs."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


class FreedMemory:
    """Gives back what is kept: once nothing has been done for `IDLE_S`, and under load every `BUSY_S`.

    The latter because what is kept piles up: in a gap that a large piece has left, a small one settles, the next large
    piece does not fit there and gets new memory. How far that goes depends on what has been asked for, in which order.
    """

    def __init__(
        self,
        give_back: Callable[[], None] = give_back_freed_memory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._give_back = give_back
        self._clock = clock
        self._worked_at = self._given_back_at = clock()
        self._has_worked = True  # starting leaves some, too

    def turn(self, *, is_idle: bool) -> None:
        """To be called in every turn, a second apart at most."""
        now = self._clock()
        if is_idle:
            is_due = self._has_worked and now - self._worked_at >= IDLE_S
        else:
            if not self._has_worked:
                self._given_back_at = now  # nothing has been kept until now
            self._worked_at, self._has_worked = now, True
            is_due = now - self._given_back_at >= BUSY_S
        if is_due:
            self._give_back()
            self._given_back_at, self._has_worked = now, not is_idle
