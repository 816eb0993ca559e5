"""The strongest test here: no schedule changes any text, loses a request, or loses a slot."""

import pytest

from tests.managers.scheduler.schedules import Schedule, check_answers
from tests.managers.scheduler.world import World

NUM_SCHEDULES, NUM_PARTS = 1000, 10


@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_every_request_gets_the_text_of_its_solo_run(part: int) -> None:
    num_retractions, statuses = 0, set()
    for seed in range(part, NUM_SCHEDULES, NUM_PARTS):
        world = run(Schedule.of(seed))
        num_retractions += world.stats().num_retractions
        statuses |= {world.finish(request_id).reason.status_code for request_id in world.heard}
    assert num_retractions > 20
    assert statuses == {200, 503, 504}


def run(schedule: Schedule) -> World:
    world = World(schedule.settings)
    ids: dict[int, list[int]] = {}
    for turn in range(schedule.last_event + 1):
        schedule.send_events(turn, world, ids)
        world.step()
    world.run()
    check_answers(schedule, world, ids)
    return world
