"""How much of the machine's own memory could be had now."""

import psutil

from srt.util.cgroup import memory_left


def free_host_memory() -> int:
    """Bytes: of the machine, or of the control groups if they allow less."""
    available = int(psutil.virtual_memory().available)
    left = memory_left()
    return available if left is None else max(min(available, left), 0)
