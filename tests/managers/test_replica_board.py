"""What the front knows of the replicas, and what it passes on."""

import pytest

from managers.messages import ControllerNote, ReplicaLost, RequestsEnded
from managers.replica_board import ReplicaBoard
from srt.errors import InvalidRequest, ServerNotReady
from tests.managers.test_data_parallel_controller import load


def test_a_lone_replica_may_be_asked_for_by_its_number() -> None:
    board = ReplicaBoard()
    board.check_rank(None)
    board.check_rank(0)
    with pytest.raises(InvalidRequest, match="between 0 and 0"):
        board.check_rank(1)


@pytest.mark.parametrize("dp_rank", [-1, 3, 10**9])
def test_a_replica_that_does_not_exist_cannot_be_asked_for(dp_rank: int) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        ReplicaBoard(3).check_rank(dp_rank)
    assert (refusal.value.param, refusal.value.status) == ("dp_rank", 400)


def test_a_lost_replica_cannot_be_asked_for_now() -> None:
    board = ReplicaBoard(2)
    board.lose(1, "it has died")
    with pytest.raises(ServerNotReady, match="it has died") as refusal:
        board.check_rank(1)
    assert refusal.value.status == 503
    assert board.live_ranks == [0]


def test_loads_are_one_a_replica_by_rank_and_a_lost_one_has_none() -> None:
    board = ReplicaBoard(3)
    board.on_load(load(2, num_used_tokens=7), now=1.0)
    board.on_load(load(0, num_used_tokens=5), now=2.0)
    board.lose(2, "it has died")
    loads = board.loads(now=4.0)
    assert [(one.dp_rank, one.is_alive, one.num_used_tokens, one.age_s) for one in loads] == [
        (0, True, 5, 2.0),
        (2, False, 0, 0.0),
    ]


def test_what_is_wrong_names_the_lost_and_the_silent() -> None:
    board = ReplicaBoard(3)
    for dp_rank in range(3):
        board.on_load(load(dp_rank), now=0.0)
    assert board.what_is_wrong(10.0, 60.0) == ""
    board.lose(1, "scheduler_DP1_TP0 has died")
    board.on_load(load(0), now=100.0)
    assert (
        board.what_is_wrong(100.0, 60.0)
        == "scheduler_DP1_TP0 has died; no sign of life from replica 2 for 100 s"
    )


def test_the_controller_is_told_of_loads_ends_and_deaths() -> None:
    told: list[ControllerNote] = []
    board = ReplicaBoard(2, tell_controller=told.append)
    board.on_load(load(0), now=0.0)
    board.on_ended([4, 5])
    board.lose(1, "why")
    assert told == [load(0), RequestsEnded(request_ids=[4, 5]), ReplicaLost(dp_rank=1, reason="why")]
