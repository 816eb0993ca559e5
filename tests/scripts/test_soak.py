import pytest

from soak import Rest, breaches, is_settled, parse_options
from soak_watch import ProcessSize, Sample, memory_of, plots

MIB = 2**20
SIZE = ProcessSize(num_bytes=100 * MIB, num_descriptors=20, num_threads=3)
BEFORE = Rest({"main": SIZE}, "the river runs", {"num_used_tokens of 0": 0})


def found(after: Rest, before: Rest = BEFORE) -> list[str]:
    return list(breaches(before, after, max_growth=0.02))


def with_memory(mib: float) -> Rest:
    return Rest({"main": ProcessSize(int(mib * MIB), 20, 3)}, BEFORE.probe, BEFORE.books)


def test_as_before_is_no_breach() -> None:
    assert found(BEFORE) == []


def test_a_helper_that_was_needed_for_the_first_time_is_none() -> None:
    assert found(Rest({"main": SIZE, "grammar_compiler": SIZE}, BEFORE.probe, BEFORE.books)) == []


@pytest.mark.parametrize(
    ("after", "part"),
    [
        (Rest({}, BEFORE.probe, {}), "main is gone"),
        (Rest({"main": ProcessSize(100 * MIB, 24, 3)}, BEFORE.probe, {}), "24 descriptors open, 20 before"),
        (Rest({"main": SIZE}, "the river stops", {}), "'the river stops'"),
        (Rest({"main": SIZE}, BEFORE.probe, {"num_used_tokens of 0": 7}), "num_used_tokens of 0 is 7"),
    ],
)
def test_what_has_changed_is_named(after: Rest, part: str) -> None:
    (breach,) = found(after)
    assert part in breach


def test_growth_is_a_share_but_what_is_nothing_is_none() -> None:
    (breach,) = found(with_memory(102.5))
    assert "from 100.0 to 102.5 MiB" in breach
    assert found(with_memory(101.5)) == []
    assert found(with_memory(10.9), before=with_memory(10)) == []


def sample(at_s: float, **num_mib: float) -> Sample:
    sizes = {name: ProcessSize(int(mib * MIB), 20, 3) for name, mib in num_mib.items()}
    return Sample(at_s, sizes, num_running=3, num_waiting=1)


def test_pages_of_libraries_are_no_process_s_own_however_many_have_them_loaded() -> None:
    alone = """55d0-7ffc ---p 00000000 00:00 0                          [rollup]
Rss:              353336 kB
Private_Clean:     10520 kB
Private_Dirty:     90000 kB
Anonymous:         90000 kB
Swap:               2048 kB
SwapPss:            2048 kB
"""
    beside_another = alone.replace("10520", "    0")
    assert memory_of(alone) == memory_of(beside_another) == (90_000 + 2_048) * 1024


def test_every_process_has_its_curve_from_when_it_is_there() -> None:
    drawn = plots([sample(0, main=100), sample(60, main=101, grammar_compiler=5)])
    assert drawn["memory"].curves == {"main": [(0, 0), (1, 1)], "grammar_compiler": [(1, 0)]}
    assert drawn["queue"].curves["running"] == [(0, 3), (1, 3)]


def test_it_is_warm_when_nobody_grows_any_more() -> None:
    grown = Rest({"main": ProcessSize(103 * MIB, 20, 3)}, BEFORE.probe, {})
    assert not is_settled(BEFORE, grown)
    assert is_settled(grown, grown)
    assert not is_settled(BEFORE, Rest({"main": SIZE, "grammar_compiler": SIZE}, BEFORE.probe, {}))


def test_a_soak_has_an_end() -> None:
    with pytest.raises(SystemExit):
        parse_options(["--minutes", "1e9"])
