"""Whom to retract when the running requests need more KV than there is. Decides only.

The oldest running request is never retracted, so it always comes to its end, and then the next oldest: any
set of requests, each of which fits into the memory alone, finishes.
"""

from collections.abc import Sequence

from managers.scheduler.request import Request


def choose_victim(running: Sequence[Request]) -> Request | None:
    """Who gives way: fewest tokens generated, the newest of these; None when only one is left."""
    if len(running) < 2:
        return None
    oldest = min(running, key=lambda request: request.arrival)
    others = (request for request in running if request is not oldest)
    return min(others, key=lambda request: (request.num_output, -request.arrival))


def split_running(running: Sequence[Request]) -> tuple[list[Request], list[Request]]:
    """Those that need one more token's KV (decode), and those that need more (prefill); order kept."""
    decoding: list[Request] = []
    prefilling: list[Request] = []
    for request in running:
        (decoding if request.num_uncomputed == 1 else prefilling).append(request)
    return decoding, prefilling
