"""Division and rounding at the borders."""

from srt.util.math import align_up, ceil_div


def test_division_rounds_up() -> None:
    assert [ceil_div(number, 4) for number in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_alignment_rounds_up_to_a_multiple() -> None:
    assert [align_up(number, 16) for number in (0, 1, 16, 17)] == [0, 16, 16, 32]
