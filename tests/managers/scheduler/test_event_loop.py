from managers.messages import FlushCache, SchedulerInput, Shutdown, TokenizedRequest, pack_token_ids
from managers.scheduler.event_loop import HEARTBEAT_S, follow, lead
from managers.scheduler.rank_broadcast import Alone, Tick
from tests.fakes.channel import FakeChannel
from tests.managers.scheduler.world import World, greedy

REQUEST = TokenizedRequest(
    request_id=1, input_ids=pack_token_ids([97, 98]), sampling=greedy(3, ignore_eos=True), stream=True
)


class Script:
    """An inbox that hands out one entry a turn and remembers how long it was asked to wait."""

    def __init__(self, *turns: list[SchedulerInput]) -> None:
        self.turns = list(turns)
        self.timeouts: list[float] = []

    def receive(self, timeout_s: float) -> list[SchedulerInput]:
        self.timeouts.append(timeout_s)
        return self.turns.pop(0)


def test_an_idle_leader_sleeps_on_its_socket_but_for_its_first_turn_and_a_busy_one_does_not_wait() -> None:
    world = World()
    inbox = Script([], [REQUEST], [], [], [], [Shutdown()])
    lead(world.scheduler, inbox, Alone(), world.outbox, world.clock)
    assert inbox.timeouts == [
        0.0,
        HEARTBEAT_S,
        0.0,
        0.0,
        HEARTBEAT_S,
        HEARTBEAT_S,
    ]  # the first tells the load


def test_a_shutdown_is_the_last_thing_said() -> None:
    world = World()
    lead(
        world.scheduler, Script([FlushCache(control_id=1)], [Shutdown()]), Alone(), world.outbox, world.clock
    )
    assert world.outbox.take()[-1] == Shutdown()


def test_a_follower_leaves_in_the_turn_of_the_shutdown() -> None:
    ticks: FakeChannel[Tick] = FakeChannel()
    leader, follower = World(), World()
    lead(leader.scheduler, Script([REQUEST], [], [Shutdown()]), ticks, leader.outbox, leader.clock)

    class Ticks:
        def receive(self) -> Tick:
            return ticks.messages.pop(0)

    follow(follower.scheduler, Ticks(), rank=1)
    assert ticks.messages == []
    assert follower.scheduler.is_shut_down
