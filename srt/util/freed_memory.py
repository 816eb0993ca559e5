"""What becomes of large pieces of memory that are freed, with glibc."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
MOST_KEPT = 512 * 2**20


def keep_freed_memory() -> bool:
    """Up to `MOST_KEPT` bytes stay with this process from now on; whether they do.

    By itself, glibc gives large pieces back and gets others, all of whose pages the system must fill with zeros: for
    the logits of 256 requests, in every step, that took as long as the step itself.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not where the C library is another
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, MOST_KEPT))
