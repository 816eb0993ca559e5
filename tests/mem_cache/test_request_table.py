import pytest

from mem_cache.request_table import RequestTable, RequestTableStats
from tests.mem_cache.request_world import as_ids


def test_rows_go_lowest_first_until_none_is_left() -> None:
    table = RequestTable(num_rows=2, context_length=4)
    assert [table.allocate(), table.allocate(), table.allocate()] == [0, 1, None]
    table.free(0)
    assert table.stats() == RequestTableStats(num_free=1, num_rows=2)
    assert table.allocate() == 0


def test_freeing_a_free_row_is_noticed() -> None:
    table = RequestTable(num_rows=2, context_length=4)
    with pytest.raises(AssertionError, match="row 1 is freed"):
        table.free(1)


def test_a_row_reads_back_what_was_written() -> None:
    table = RequestTable(num_rows=2, context_length=6)
    table.write(1, 0, as_ids([7, 8]))
    table.write(1, 2, as_ids([9]))
    assert table.read(1, 0, 3).tolist() == [7, 8, 9]


def test_a_row_never_grows_past_the_context() -> None:
    table = RequestTable(num_rows=1, context_length=2)
    with pytest.raises(AssertionError, match="at most 2 fit"):
        table.write(0, 1, as_ids([1, 2]))


def test_rows_of_different_lengths_are_gathered_with_padding_slots_beyond() -> None:
    table = RequestTable(num_rows=3, context_length=4)
    table.write(2, 0, as_ids([5, 6, 7]))
    table.write(0, 0, as_ids([1]))
    assert table.gather([2, 0]).tolist() == [[5, 6, 7], [1, 0, 0]]
    assert table.gather([]).shape == (0, 0)


def test_one_more_token_goes_behind_the_others_of_its_row() -> None:
    table = RequestTable(num_rows=2, context_length=4)
    table.write(0, 0, as_ids([1, 2, 3]))
    table.write(0, 1, as_ids([4, 5]))
    table.append_to_each([1, 0], as_ids([6, 7]))
    assert table.gather([0, 1]).tolist() == [[1, 4, 5, 7], [6, 0, 0, 0]]


def test_a_row_that_was_freed_tells_nothing_of_its_last_owner() -> None:
    table = RequestTable(num_rows=2, context_length=4)
    assert table.allocate() == 0
    table.write(0, 0, as_ids([1, 2, 3]))
    table.free(0)
    assert table.allocate() == 0
    table.write(0, 0, as_ids([4]))
    table.write(1, 0, as_ids([5, 6]))
    assert table.gather([0, 1]).tolist() == [[4, 0], [5, 6]]
