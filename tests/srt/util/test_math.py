"""Division at the borders."""

from srt.util.math import ceil_div


def test_division_rounds_up() -> None:
    assert [ceil_div(number, 4) for number in (0, 1, 4, 5)] == [0, 1, 1, 2]
