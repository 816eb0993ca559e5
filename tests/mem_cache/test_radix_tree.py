import numpy as np
import pytest

from mem_cache.radix_tree import RadixTree, num_common
from tests.mem_cache.request_world import as_ids


def tree_with(*runs: str, page_size: int = 1) -> RadixTree:
    """Each run of letters hangs below the root, in slots counted from 100."""
    tree = RadixTree(page_size)
    for run in runs:
        tree.add_leaf(tree.root, letters(run), np.arange(100, 100 + len(run), dtype=np.int32), ())
    return tree


def letters(text: str) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return as_ids(map(ord, text))


@pytest.mark.parametrize("position", [0, 1, 63, 64, 65, 575, 576, 4000, 9999])
def test_the_first_difference_is_found_wherever_it_is(position: int) -> None:
    left = np.zeros(10_000, np.int32)
    right = left.copy()
    right[position] = 1
    assert num_common(left, right) == position


def test_equal_runs_are_common_up_to_the_shorter() -> None:
    assert num_common(letters("abc"), letters("abcde")) == 3
    assert num_common(letters(""), letters("a")) == 0


def test_a_walk_that_ends_inside_a_node_says_where() -> None:
    tree = tree_with("abcdef")
    walk = tree.walk(letters("abcX"), ())
    assert (walk.num_matched, walk.num_in_last, len(walk.nodes)) == (3, 3, 1)


def test_a_walk_matches_whole_pages_only() -> None:
    tree = tree_with("abcdefgh", page_size=4)
    assert tree.walk(letters("abcdefg"), ()).num_matched == 4
    assert tree.walk(letters("abcdXfgh"), ()).num_matched == 4
    assert tree.walk(letters("abc"), ()).nodes == []


def test_after_a_split_the_node_still_ends_the_same_prefix() -> None:
    tree = tree_with("abcdef")
    node = tree.walk(letters("abcdef"), ()).nodes[-1]
    node.lock_count = 2
    upper = tree.split(node, 2)
    assert tree.walk(letters("abcdef"), ()).nodes == [upper, node]
    assert upper.slots.tolist() == [100, 101]
    assert node.slots.tolist() == [102, 103, 104, 105]
    assert upper.lock_count == node.lock_count == 2
    tree.check()


def test_a_shortened_leaf_gives_up_the_slots_of_its_end() -> None:
    tree = tree_with("abcdef")
    leaf = tree.walk(letters("abcdef"), ()).nodes[-1]
    assert tree.shorten(leaf, 2).tolist() == [102, 103, 104, 105]
    assert tree.walk(letters("abcdef"), ()).num_matched == 2
    tree.check()


def test_a_small_rest_does_not_keep_a_large_buffer_alive() -> None:
    tree = tree_with("a" * 10_000)
    leaf = tree.walk(letters("a" * 10_000), ()).nodes[-1]
    upper = tree.split(leaf, 10)
    tree.shorten(leaf, 20)
    for node in (upper, leaf):
        for held in (node.tokens, node.slots):
            buffer = held if held.base is None else held.base
            assert buffer.size <= 2 * held.size


def test_the_caller_may_overwrite_the_arrays_it_added() -> None:
    tree = RadixTree(1)
    tokens, slots = letters("abc"), as_ids([7, 8, 9])
    tree.add_leaf(tree.root, tokens, slots, ())
    tokens[:] = 0
    slots[:] = 0
    assert tree.walk(letters("abc"), ()).nodes[-1].slots.tolist() == [7, 8, 9]


def test_climbing_from_a_node_that_is_gone_is_an_error() -> None:
    tree = tree_with("abc")
    leaf = tree.walk(letters("abc"), ()).nodes[-1]
    tree.remove(leaf)
    with pytest.raises(AssertionError, match="evicted while in use"):
        list(tree.path(leaf))


def test_nodes_come_in_the_order_they_were_added() -> None:
    tree = tree_with("xyz", "abc", "mno")
    assert [chr(node.tokens[0]) for node in tree.nodes()] == ["x", "a", "m"]
    assert tree.num_nodes == 3


def test_check_sees_an_empty_node() -> None:
    tree = tree_with("abc")
    node = next(tree.nodes())
    node.tokens = node.slots = as_ids([])
    with pytest.raises(AssertionError, match="is empty"):
        tree.check()
