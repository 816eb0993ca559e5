"""Whom to retract so that a more urgent request can run at once. Decides only."""

from collections.abc import Callable, Sequence

from managers.scheduler.request import Request


def choose_preempted(
    candidate: Request,
    running: Sequence[Request],
    *,
    threshold: int,
    num_places_missing: int,
    num_slots_missing: int,
    num_freed: Callable[[Request], int],
) -> list[Request]:
    """The least urgent, of these the newest, as many as it takes; nobody when even all of them are too few.

    Only those count than whom `candidate` is more urgent by more than `threshold`. `num_freed` says how many slots
    a request would leave.
    """
    if num_places_missing <= 0 and num_slots_missing <= 0:
        return []
    less_urgent = [request for request in running if candidate.urgency - request.standing > threshold]
    chosen: list[Request] = []
    for request in sorted(less_urgent, key=lambda request: (request.standing, -request.arrival)):
        chosen.append(request)
        num_places_missing -= 1
        num_slots_missing -= num_freed(request)
        if num_places_missing <= 0 and num_slots_missing <= 0:
            return chosen
    return []
