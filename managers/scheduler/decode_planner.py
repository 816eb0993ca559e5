"""Whom to retract when the running requests need more KV than there is. Decides only.

The first in line, of the most urgent the oldest, is never retracted, so it always comes to its end, and then the
next: any set of requests, each of which fits into the memory alone, finishes.
"""

from collections.abc import Sequence

from managers.scheduler.request import Request


def place_in_line(request: Request) -> tuple[int, int]:
    """The lower, the longer a running request keeps its memory."""
    return -request.standing, request.arrival


def choose_victim(running: Sequence[Request]) -> Request | None:
    """Who gives way: of the least urgent the cheapest, the newest of these; None when only one is left."""
    if len(running) < 2:
        return None
    first = min(running, key=place_in_line)
    others = (request for request in running if request is not first)
    return min(others, key=lambda request: (request.standing, _cost(request), -request.arrival))


def _cost(request: Request) -> tuple[bool, int]:
    """What is lost by a retraction: the fewer tokens are generated, the fewer are computed again.

    Whoever ends with this step gives its memory back anyway.
    """
    return request.num_uncomputed == 1 and request.num_tokens_left == 1, request.num_output


def split_running(running: Sequence[Request]) -> tuple[list[Request], list[Request]]:
    """Those that need one more token's KV (decode), and those that need more (prefill); order kept."""
    decoding: list[Request] = []
    prefilling: list[Request] = []
    for request in running:
        num_uncomputed = request.num_uncomputed
        if num_uncomputed > 0 and not request.awaits_last_token:
            (decoding if num_uncomputed == 1 else prefilling).append(request)
    return decoding, prefilling
