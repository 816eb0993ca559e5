"""Limits of control groups, read from files that look like Linux's."""

from pathlib import Path

import pytest

from srt.util.cgroup import cpu_limit, memory_left, memory_limit

NOWHERE = Path("/nonexistent")


def write(root: Path, **files: str) -> Path:
    """`memory__stat` becomes memory.stat, `cpu___x` a file x in the folder cpu."""
    for name, text in files.items():
        path = root / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_no_group_has_no_limits(tmp_path: Path) -> None:
    assert memory_limit(tmp_path, NOWHERE) is memory_left(tmp_path, NOWHERE) is None
    assert cpu_limit(tmp_path, NOWHERE) is None


def test_version_2_memory(tmp_path: Path) -> None:
    stat = "anon 600\ninactive_file 300\nactive_file 100"
    write(tmp_path, memory__max="2000", memory__current="1000", memory__stat=stat)
    assert memory_limit(tmp_path, NOWHERE) == 2000
    assert memory_left(tmp_path, NOWHERE) == 1300


def test_version_1_memory(tmp_path: Path) -> None:
    write(
        tmp_path,
        memory___memory__limit_in_bytes="2000",
        memory___memory__usage_in_bytes="1000",
        memory___memory__stat="total_inactive_file 250",
    )
    assert memory_limit(tmp_path, NOWHERE) == 2000
    assert memory_left(tmp_path, NOWHERE) == 1250


def test_max_is_no_limit(tmp_path: Path) -> None:
    write(tmp_path, memory__max="max", cpu__max="max 100000")
    assert memory_limit(tmp_path, NOWHERE) is None
    assert cpu_limit(tmp_path, NOWHERE) is None


@pytest.mark.parametrize(("quota", "expected"), [("250000 100000", 2), ("50000 100000", 1)])
def test_version_2_processors(quota: str, expected: int, tmp_path: Path) -> None:
    assert cpu_limit(write(tmp_path, cpu__max=quota), NOWHERE) == expected


@pytest.mark.parametrize(("quota", "expected"), [("400000", 4), ("-1", None)])
def test_version_1_processors(quota: str, expected: int | None, tmp_path: Path) -> None:
    write(tmp_path, cpu___cpu__cfs_quota_us=quota, cpu___cpu__cfs_period_us="100000")
    assert cpu_limit(tmp_path, NOWHERE) == expected


def test_a_service_has_the_tightest_limits_of_all_groups_it_is_in(tmp_path: Path) -> None:
    own = write(tmp_path, membership="0::/system.slice/lockstep.service") / "membership"
    write(tmp_path / "system.slice", memory__max="3000", memory__current="2900", cpu__max="max 100000")
    write(tmp_path / "system.slice/lockstep.service", memory__max="2000", memory__current="100")
    write(tmp_path / "system.slice/lockstep.service", cpu__max="300000 100000")
    write(tmp_path / "other.service", memory__max="1", memory__current="1", cpu__max="1000 100000")
    assert memory_limit(tmp_path, own) == 2000
    assert memory_left(tmp_path, own) == 100
    assert cpu_limit(tmp_path, own) == 3


def test_a_group_of_version_1_is_found_by_its_controller(tmp_path: Path) -> None:
    own = write(tmp_path, membership="5:memory:/a\n4:cpu,cpuacct:/b\n0::/") / "membership"
    write(tmp_path / "memory/a", memory__limit_in_bytes="500", memory__usage_in_bytes="100")
    write(tmp_path / "cpu/b", cpu__cfs_quota_us="200000", cpu__cfs_period_us="100000")
    assert (memory_left(tmp_path, own), cpu_limit(tmp_path, own)) == (400, 2)


def test_a_group_that_cannot_be_seen_from_a_container_is_passed_over(tmp_path: Path) -> None:
    own = write(tmp_path, membership="0::/../../docker/1234", memory__max="700") / "membership"
    assert memory_limit(tmp_path, own) == 700
