"""What the control group that we run in allows: memory and processor time. None where there is no limit.

Both versions of the interface, as Linux mounts them. A container sees its own group at the top of the mount.
"""

import math
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def memory_limit(root: Path = ROOT) -> int | None:
    """Most bytes that the group's processes may use together."""
    return _number(root / "memory.max") or _number(root / "memory/memory.limit_in_bytes")


def memory_used(root: Path = ROOT) -> int:
    """Bytes that the group uses and could not give back at once; file cache that nobody reads does not count."""
    for folder, usage, inactive in (
        (root, "memory.current", "inactive_file"),
        (root / "memory", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        used = _number(folder / usage)
        if used is not None:
            return max(used - _statistic(folder / "memory.stat", inactive), 0)
    return 0


def cpu_limit(root: Path = ROOT) -> int | None:
    """Whole processors that the group's time is worth, at least 1."""
    quota, period = _words(root / "cpu.max")[:2] or ("max", "0")
    if quota == "max":
        quota_us, period_us = _number(root / "cpu/cpu.cfs_quota_us"), _number(root / "cpu/cpu.cfs_period_us")
    else:
        quota_us, period_us = int(quota), int(period)
    if not quota_us or not period_us or quota_us < 0:
        return None
    return max(math.floor(quota_us / period_us), 1)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0] != "max" else None


def _statistic(path: Path, name: str) -> int:
    words = _words(path)
    return int(words[words.index(name) + 1]) if name in words else 0
