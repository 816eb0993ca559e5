"""Histograms in cells that others may hold."""

from array import array

from srt.observability.histogram import Distribution, Histogram, distribution, num_cells

BOUNDS = (0.1, 1.0)


def test_a_value_belongs_to_the_first_bound_that_it_does_not_exceed() -> None:
    histogram = Histogram(BOUNDS)
    for seconds in (0.05, 0.1, 0.100001, 7.0):
        histogram.observe(seconds)
    assert histogram.read() == Distribution(BOUNDS, [2, 1, 1], 7.250001)


def test_several_at_once_count_as_often() -> None:
    histogram = Histogram(BOUNDS)
    histogram.observe(0.5, 3)
    assert histogram.read() == Distribution(BOUNDS, [0, 3, 0], 1.5)


def test_cells_of_shared_memory_are_counted_in_place() -> None:
    cells = memoryview(array("q", [0] * num_cells(BOUNDS)))
    Histogram(BOUNDS, cells).observe(0.5)
    assert cells.tolist() == [0, 1, 0, 500_000]


def test_cells_that_were_sent_are_read_elsewhere_and_no_cells_are_nothing() -> None:
    histogram = Histogram(BOUNDS)
    histogram.observe(2.0)
    assert distribution(BOUNDS, histogram.cells) == histogram.read()
    assert distribution(BOUNDS, []) == Distribution(BOUNDS, [0, 0, 0], 0.0)


def test_what_two_processes_counted_adds_up() -> None:
    one, other = Distribution(BOUNDS, [1, 0, 2], 3.0), Distribution(BOUNDS, [0, 5, 1], 0.5)
    assert one + other == Distribution(BOUNDS, [1, 5, 3], 3.5)
