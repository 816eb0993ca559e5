import pytest

from soak import ProcessSize, Rest, breaches, is_settled, parse_options

MIB = 2**20
SIZE = ProcessSize(num_bytes=100 * MIB, num_descriptors=20, num_threads=3)
BEFORE = Rest({"main": SIZE}, "the river runs", {"num_used_tokens of 0": 0})


def found(after: Rest) -> list[str]:
    return list(breaches(BEFORE, after, max_growth=0.02))


def test_as_before_is_no_breach() -> None:
    assert found(BEFORE) == []


def test_a_helper_that_was_needed_for_the_first_time_is_none() -> None:
    assert found(Rest({"main": SIZE, "grammar_compiler": SIZE}, BEFORE.probe, BEFORE.books)) == []


@pytest.mark.parametrize(
    ("after", "part"),
    [
        (Rest({}, BEFORE.probe, {}), "main is gone"),
        (Rest({"main": ProcessSize(106 * MIB, 20, 3)}, BEFORE.probe, {}), "from 100.0 to 106.0 MiB"),
        (Rest({"main": ProcessSize(100 * MIB, 24, 3)}, BEFORE.probe, {}), "24 descriptors open, 20 before"),
        (Rest({"main": SIZE}, "the river stops", {}), "'the river stops'"),
        (Rest({"main": SIZE}, BEFORE.probe, {"num_used_tokens of 0": 7}), "num_used_tokens of 0 is 7"),
    ],
)
def test_what_has_changed_is_named(after: Rest, part: str) -> None:
    (breach,) = found(after)
    assert part in breach


def test_it_is_warm_when_nobody_grows_any_more() -> None:
    grown = Rest({"main": ProcessSize(101 * MIB, 20, 3)}, BEFORE.probe, {})
    assert not is_settled(BEFORE, grown)
    assert is_settled(grown, grown)
    assert not is_settled(BEFORE, Rest({"main": SIZE, "grammar_compiler": SIZE}, BEFORE.probe, {}))


def test_a_soak_has_an_end() -> None:
    with pytest.raises(SystemExit):
        parse_options(["--minutes", "1e9"])
