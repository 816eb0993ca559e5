"""Limits of a control group, read from files that look like Linux's."""

from pathlib import Path

import pytest

from srt.util.cgroup import cpu_limit, memory_limit, memory_used


def write(root: Path, **files: str) -> Path:
    """`memory__stat` becomes memory.stat, `cpu___x` a file x in the folder cpu."""
    for name, text in files.items():
        path = root / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_no_group_has_no_limits(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) is None
    assert memory_used(tmp_path) == 0
    assert cpu_limit(tmp_path) is None


def test_version_2_memory(tmp_path: Path) -> None:
    stat = "anon 600\ninactive_file 300\nactive_file 100"
    write(tmp_path, memory__max="2000", memory__current="1000", memory__stat=stat)
    assert memory_limit(tmp_path) == 2000
    assert memory_used(tmp_path) == 700


def test_version_1_memory(tmp_path: Path) -> None:
    write(
        tmp_path,
        memory___memory__limit_in_bytes="2000",
        memory___memory__usage_in_bytes="1000",
        memory___memory__stat="total_inactive_file 250",
    )
    assert memory_limit(tmp_path) == 2000
    assert memory_used(tmp_path) == 750


def test_max_is_no_limit(tmp_path: Path) -> None:
    write(tmp_path, memory__max="max", cpu__max="max 100000")
    assert memory_limit(tmp_path) is None
    assert cpu_limit(tmp_path) is None


@pytest.mark.parametrize(("quota", "expected"), [("250000 100000", 2), ("50000 100000", 1)])
def test_version_2_processors(quota: str, expected: int, tmp_path: Path) -> None:
    assert cpu_limit(write(tmp_path, cpu__max=quota)) == expected


@pytest.mark.parametrize(("quota", "expected"), [("400000", 4), ("-1", None)])
def test_version_1_processors(quota: str, expected: int | None, tmp_path: Path) -> None:
    write(tmp_path, cpu___cpu__cfs_quota_us=quota, cpu___cpu__cfs_period_us="100000")
    assert cpu_limit(tmp_path) == expected
