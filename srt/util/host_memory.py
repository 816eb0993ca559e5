"""How much of the machine's own memory could be had now."""

import psutil

from srt.util.cgroup import memory_limit, memory_used


def free_host_memory() -> int:
    """Bytes: of the machine, or of the control group if that allows less."""
    machine = psutil.virtual_memory()
    available = int(machine.available)
    limit = memory_limit()
    if limit is None or limit >= machine.total:
        return available
    return min(available, limit - memory_used())
