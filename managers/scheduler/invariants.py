"""Check the books: every slot is free, cached or a running request's; on an idle scheduler nobody holds any.

A violation is our bug. A running server says so, counts it and repairs it; tests make it fatal.
"""

import logging
from collections.abc import Sequence

from managers.scheduler.request import Request
from managers.scheduler.request_memory import RequestMemory
from mem_cache.books import take_stock

logger = logging.getLogger(__name__)

# Pages of each kind of fault whose history is logged.
MOST_HISTORIES = 8


def find_violations(
    memory: RequestMemory, running: Sequence[Request], *, looks_inside: bool = True
) -> list[str]:
    """What is wrong with the books, worded for the log; empty when they balance. Costs as take_stock does.

    `looks_inside` the prefix cache as well, node by node: for tests.
    """
    books = memory.books
    stock = take_stock(books, [memory.own_slots(request) for request in running])
    found: list[str] = []
    if not stock.balances:
        found.append(f"slots lost: {stock.lost[:20].tolist()}, held twice: {stock.doubled[:20].tolist()}")
    total = stock.num_free + stock.num_evictable + stock.num_protected + stock.num_in_flight
    if total != stock.capacity:
        found.append(
            f"{stock.num_free} free, {stock.num_evictable} evictable, {stock.num_protected} protected and "
            f"{stock.num_in_flight} in flight are {total}, not {stock.capacity}"
        )
    rows = books.table.stats()
    if rows.num_rows - rows.num_free != len(running):
        found.append(f"{rows.num_rows - rows.num_free} rows are taken, {len(running)} requests run")
    if not running and stock.num_protected:
        found.append(f"{stock.num_protected} cached tokens are locked, but no request runs")
    for request in running:
        holding = request.holding
        if holding is None or holding.num_slots != request.num_computed:
            found.append(f"request {request.id}: {request.num_computed} tokens computed, holds {holding}")
    if looks_inside:
        found.extend(_find_inside(memory, running))
    return found


def _find_inside(memory: RequestMemory, running: Sequence[Request]) -> list[str]:
    holdings = [request.holding for request in running]
    try:
        memory.books.cache.check([holding.node for holding in holdings if holding is not None])
    except AssertionError as error:
        return [f"prefix cache: {error}"]
    return []


def is_balanced(memory: RequestMemory) -> bool:
    """The part of the check of an idle scheduler that costs nothing."""
    stats = memory.stats()
    rows = memory.books.table.stats()
    return (
        stats.num_free + stats.num_evictable == stats.capacity
        and stats.num_protected == 0
        and rows.num_free == rows.num_rows
    )


def check_idle(memory: RequestMemory) -> bool:
    """Check the books of an idle scheduler and repair them; whether they had to be.

    The repair frees what nobody has and forgets cached prefixes that lie where something else lies too. If that
    does not help, it opens new books: then all that was cached is forgotten. Either costs time, never correctness.
    """
    violations = find_violations(memory, (), looks_inside=False)
    if not violations:
        return False
    logger.error("KV memory does not add up on an idle scheduler. %s", "; ".join(violations))
    stock = take_stock(memory.books)
    for slots in (stock.lost, stock.doubled):  # whole pages, in order
        for slot in slots[:: memory.page_size][:MOST_HISTORIES].tolist():
            logger.error("%s", memory.history.of(slot))
    left = _mend(memory)
    if left:
        memory.rebuild()
        logger.error("The repair did not help; new books are open, nothing is cached. %s", "; ".join(left))
    else:
        logger.error("It was repaired: %s", memory.stats())
    return True


def _mend(memory: RequestMemory) -> list[str]:
    """What is wrong after that."""
    try:
        memory.mend()
    except AssertionError as error:
        return [f"not mended: {error}"]
    return find_violations(memory, ())
