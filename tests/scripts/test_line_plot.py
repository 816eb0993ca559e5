import xml.etree.ElementTree as ElementTree

import pytest

from line_plot import LinePlot, ticks


def drawn(plot: LinePlot) -> list[list[tuple[float, float]]]:
    """The places of each curve's points."""
    lines = ElementTree.fromstring(plot.svg()).iter("{http://www.w3.org/2000/svg}polyline")
    return [
        [(float(x), float(y)) for x, y in (point.split(",") for point in line.attrib["points"].split())]
        for line in lines
    ]


def plot(**more: object) -> LinePlot:
    curves = {"a & b": [(1.0, 0.0), (2.0, 5.0), (4.0, 10.0)], "c": [(1.0, 10.0)]}
    return LinePlot(**{"title": "<t>", "x_label": "x", "y_label": "y", "curves": curves, **more})  # type: ignore[arg-type]


def test_more_is_higher_and_later_is_further_right() -> None:
    first, second = drawn(plot())
    assert [x for x, _ in first] == sorted(x for x, _ in first)
    assert [y for _, y in first] == sorted((y for _, y in first), reverse=True)
    assert second[0] == (first[0][0], first[2][1])


def test_what_doubles_is_equally_far_apart() -> None:
    (_, y_of_first), *_ = drawn(plot())[0]
    left, middle, right = (x for x, _ in drawn(plot(log_x=True))[0])
    assert middle - left == pytest.approx(right - middle)
    assert y_of_first == drawn(plot(log_x=True))[0][0][1]


def test_a_curve_that_never_changes_can_be_drawn() -> None:
    assert drawn(plot(curves={"a": [(0.0, 0.0), (1.0, 0.0)]}))


def test_ticks_are_round() -> None:
    assert ticks(0, 97) == [0, 20, 40, 60, 80]
    assert ticks(63.5, 64.5) == pytest.approx([63.6, 63.8, 64.0, 64.2, 64.4])
