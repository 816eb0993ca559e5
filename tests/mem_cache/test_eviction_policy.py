from mem_cache.eviction_policy import LeastRecentlyUsed


def test_the_member_unused_for_longest_goes_first() -> None:
    order: LeastRecentlyUsed[str] = LeastRecentlyUsed()
    for number, name in enumerate("abc"):
        order.used(number, name)
    order.used(0, "a")
    assert list(order) == ["b", "c", "a"]
    assert order.first() == "b"


def test_a_discarded_member_is_not_offered_until_it_is_used_again() -> None:
    order: LeastRecentlyUsed[str] = LeastRecentlyUsed()
    order.used(1, "a")
    order.used(2, "b")
    order.discard(1)
    order.discard(1)
    assert list(order) == ["b"]
    order.used(1, "a")
    assert list(order) == ["b", "a"]
    assert len(order) == 2
