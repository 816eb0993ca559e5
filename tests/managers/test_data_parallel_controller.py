"""Messages to replicas: each to where it belongs, whoever dies."""

from managers.data_parallel_controller import DataParallelController
from managers.dispatch_policy import POLICIES
from managers.messages import (
    AbortRequest,
    ControllerInput,
    DetokenizerInput,
    FlushCache,
    GetState,
    ReplicaLost,
    RequestsEnded,
    SchedulerInput,
    SchedulerLoad,
    Shutdown,
    TokenBatch,
    TokenizedRequest,
    pack_token_ids,
)
from srt.sampling.params import SamplingParams
from tests.fakes.channel import FakeChannel

WATCHDOG_S = 60.0


class World:
    """A controller whose replicas are lists."""

    def __init__(self, policy: str = "round_robin", dp_size: int = 2) -> None:
        self.now = 0.0
        self.replicas = [FakeChannel[SchedulerInput]() for _ in range(dp_size)]
        self.detokenizer = FakeChannel[DetokenizerInput]()
        self.controller = DataParallelController(
            self.replicas,
            self.detokenizer,
            POLICIES[policy](),
            silence_limit_s=WATCHDOG_S,
            clock=lambda: self.now,
        )

    def tell(self, *messages: ControllerInput) -> None:
        for message in messages:
            self.controller.handle(message)

    def ids_at(self, dp_rank: int) -> list[int]:
        """The requests that this replica was sent."""
        return [m.request_id for m in self.replicas[dp_rank].messages if isinstance(m, TokenizedRequest)]

    def last_words(self) -> dict[int, tuple[str, int, str]]:
        return {
            finished.request_id: (finished.reason.type, finished.reason.status_code, finished.reason.message)
            for message in self.detokenizer.messages
            if isinstance(message, TokenBatch)
            for finished in message.finished
        }


def request(
    request_id: int, *, num_tokens: int = 4, leader: int | None = None, dp_rank: int | None = None
) -> TokenizedRequest:
    return TokenizedRequest(
        request_id=request_id,
        input_ids=pack_token_ids([request_id] * num_tokens),
        sampling=SamplingParams(),
        stream=False,
        group_leader=leader,
        dp_rank=dp_rank,
    )


def load(dp_rank: int, *, num_used_tokens: int = 0, num_received: int = 0) -> SchedulerLoad:
    return SchedulerLoad(
        dp_rank=dp_rank,
        num_running=0,
        num_waiting=0,
        num_waiting_uncached_tokens=0,
        num_used_tokens=num_used_tokens,
        num_cached_tokens=0,
        max_total_num_tokens=1000,
        max_running_requests=8,
        gen_throughput=0.0,
        cache_hit_rate=0.0,
        turn=1,
        num_received=num_received,
    )


LOST = ReplicaLost(dp_rank=1, reason="scheduler_DP1_TP0 has died")


def test_requests_are_dispatched_one_by_one() -> None:
    world = World()
    world.tell(*(request(i) for i in (1, 2, 3, 4)))
    assert (world.ids_at(0), world.ids_at(1)) == ([1, 3], [2, 4])


def test_the_answers_of_a_group_are_made_where_its_prompt_is() -> None:
    world = World()
    world.tell(request(1), request(2, leader=1), request(3, leader=1), request(4))
    assert (world.ids_at(0), world.ids_at(1)) == ([1, 2, 3], [4])


def test_a_wish_for_a_replica_is_granted_and_counts_as_its_turn() -> None:
    world = World()
    world.tell(request(1, dp_rank=1), request(2, dp_rank=1), request(3))
    assert (world.ids_at(0), world.ids_at(1)) == ([3], [1, 2])


def test_an_abort_goes_to_the_owner_only_and_one_of_nobody_nowhere() -> None:
    world = World()
    world.tell(request(1), request(2), request(3), AbortRequest(request_ids=[1, 3, 99]))
    assert world.replicas[0].messages[-1] == AbortRequest(request_ids=[1, 3])
    assert world.ids_at(1) == [2]
    assert len(world.replicas[1].messages) == 1


def test_an_abort_of_many_reaches_every_owner_once() -> None:
    world = World()
    world.tell(request(1), request(2), AbortRequest(request_ids=[1, 2]))
    assert [replica.messages[-1] for replica in world.replicas] == [
        AbortRequest(request_ids=[1]),
        AbortRequest(request_ids=[2]),
    ]


def test_whoever_has_ended_is_forgotten() -> None:
    world = World()
    world.tell(request(1), request(2), RequestsEnded(request_ids=[1, 2]))
    assert world.controller.num_open == 0
    world.tell(RequestsEnded(request_ids=[1, 77]), AbortRequest(request_ids=[1]))
    assert world.ids_at(0) == [1]
    assert len(world.replicas[0].messages) == 1


def test_fewest_requests_means_those_that_have_not_ended() -> None:
    world = World("least_requests")
    world.tell(request(1), request(2), request(3), RequestsEnded(request_ids=[1, 3]), request(4), request(5))
    assert (world.ids_at(0), world.ids_at(1)) == ([1, 3, 4], [2, 5])


def test_fewest_tokens_counts_what_a_report_does_not_cover_yet() -> None:
    world = World("least_tokens")
    world.tell(load(0, num_used_tokens=50), load(1))
    world.tell(request(1, num_tokens=30), request(2, num_tokens=30), request(3, num_tokens=30))
    # 1: 0 against 50; 2: 30 against 50; 3: 60 against 50
    assert (world.ids_at(0), world.ids_at(1)) == ([3], [1, 2])


def test_a_report_that_crossed_a_request_on_its_way_does_not_hide_it() -> None:
    world = World("least_tokens")
    world.tell(request(1, num_tokens=100, dp_rank=0), request(2, num_tokens=10, dp_rank=1))
    world.tell(load(0, num_received=0), load(1, num_received=1, num_used_tokens=20))
    world.tell(request(3, num_tokens=1))
    assert world.ids_at(1) == [2, 3]
    world.tell(load(0, num_received=1, num_used_tokens=5), request(4, num_tokens=1))
    assert world.ids_at(0) == [1, 4]


def test_admin_requests_go_to_all() -> None:
    world = World()
    world.tell(FlushCache(control_id=1), GetState(control_id=2), Shutdown())
    for replica in world.replicas:
        assert replica.messages == [FlushCache(control_id=1), GetState(control_id=2), Shutdown()]
    assert world.controller.is_shut_down


def test_a_lost_replica_takes_only_its_own_requests_with_it() -> None:
    world = World()
    world.tell(request(1), request(2), request(3), request(4), LOST)
    assert world.last_words() == {
        request_id: ("abort", 503, "scheduler_DP1_TP0 has died") for request_id in (2, 4)
    }
    assert world.controller.num_open == 2


def test_the_detokenizer_hears_that_a_lost_replica_will_say_no_more_and_once() -> None:
    world = World()
    world.tell(LOST, LOST)
    assert world.detokenizer.messages == [Shutdown()]


def test_a_lost_replica_is_sent_nothing_more() -> None:
    world = World()
    world.tell(request(1), request(2), LOST)
    num_before = len(world.replicas[1].messages)
    world.tell(request(3), request(4), GetState(control_id=1), AbortRequest(request_ids=[2]), load(1))
    assert len(world.replicas[1].messages) == num_before
    assert world.ids_at(0) == [1, 3, 4]


def test_a_wish_for_a_lost_replica_ends_with_an_error_and_nothing_else_does() -> None:
    world = World()
    world.tell(LOST, request(1, dp_rank=1), request(2))
    assert world.last_words() == {1: ("abort", 503, "scheduler_DP1_TP0 has died")}
    assert world.ids_at(0) == [2]


def test_without_any_replica_every_request_still_gets_its_last_word() -> None:
    world = World(dp_size=1)
    world.tell(ReplicaLost(dp_rank=0, reason="gone"), request(1))
    assert world.last_words() == {1: ("abort", 503, "no replica is left")}


def test_a_silent_replica_gets_nothing_while_another_speaks() -> None:
    world = World()
    world.now = WATCHDOG_S + 1
    world.tell(load(1), request(1), request(2))
    assert world.ids_at(1) == [1, 2]


def test_when_all_are_silent_all_are_tried() -> None:
    world = World()
    world.now = WATCHDOG_S + 1
    world.tell(request(1), request(2))
    assert (world.ids_at(0), world.ids_at(1)) == ([1], [2])
