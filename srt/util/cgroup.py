"""What the control groups that we run in allow: memory and processor time. None where there is no limit.

Both versions of the interface, as Linux mounts them. A container sees its own group at the top of the mount; a service
of systemd's is somewhere below, and the limits of every group above it hold as well.
"""

import math
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
# Lines of hierarchy:controllers:path; version 2 is hierarchy 0.
MEMBERSHIP = Path("/proc/self/cgroup")


def memory_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Most bytes that the processes of the tightest group may use together."""
    return min((limit for limit, _ in _memory(root, membership)), default=None)


def memory_left(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Bytes until the first limit is met. File cache that nobody reads is given back at once and does not count."""
    return min((limit - used for limit, used in _memory(root, membership)), default=None)


def cpu_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Whole processors that the tightest group's time is worth, at least 1."""
    shares = [_words(group / "cpu.max") for group in _groups(root, membership, "")]
    for group in _groups(root / "cpu", membership, "cpu"):
        shares.append(_words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us"))
    worth = [
        max(math.floor(int(share[0]) / int(share[1])), 1)
        for share in shares
        if len(share) == 2 and share[0] != "max" and int(share[0]) > 0
    ]
    return min(worth, default=None)


def _memory(root: Path, membership: Path) -> Iterator[tuple[int, int]]:
    """Limit and use of each group that has a limit."""
    for top, controller, limit_name, used_name, inactive in (
        (root, "", "memory.max", "memory.current", "inactive_file"),
        (root / "memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        for group in _groups(top, membership, controller):
            limit = _number(group / limit_name)
            if limit is not None:
                used = (_number(group / used_name) or 0) - _statistic(group / "memory.stat", inactive)
                yield limit, max(used, 0)


def _groups(top: Path, membership: Path, controller: str) -> Iterator[Path]:
    """Our group, as far as it can be seen under `top`, and all above it."""
    for line in _lines(membership):
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and ".." not in path.split("/"):
            group = top / path.strip("/")
            while group != top:
                yield group
                group = group.parent
    yield top


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text().splitlines() if line.count(":") >= 2]
    except OSError:
        return []


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
