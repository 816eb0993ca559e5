"""A scheduler among several signs what it says."""

from managers.messages import (
    DetokenizerInput,
    FlushCacheReply,
    GetState,
    GetStateReply,
    SchedulerInput,
    Shutdown,
    TokenBatch,
)
from managers.scheduler.replica_port import ReplicaPort
from tests.fakes.channel import FakeChannel
from tests.managers.test_data_parallel_controller import load, request


def test_replies_and_loads_carry_the_rank_and_the_rest_passes_as_it_is() -> None:
    inbox, outbox = FakeChannel[SchedulerInput](), FakeChannel[DetokenizerInput]()
    port = ReplicaPort(3, inbox, outbox)
    text = TokenBatch(request_ids=[1], num_tokens=[1], token_ids=[7])
    for message in (FlushCacheReply(control_id=1, done=True), GetStateReply(control_id=2, state={}), text):
        port.send(message)
    port.send(Shutdown())
    assert outbox.messages == [
        FlushCacheReply(control_id=1, done=True, dp_rank=3),
        GetStateReply(control_id=2, state={}, dp_rank=3),
        text,
        Shutdown(),
    ]


def test_a_load_says_how_many_requests_it_covers() -> None:
    inbox, outbox = FakeChannel[SchedulerInput](), FakeChannel[DetokenizerInput]()
    port = ReplicaPort(1, inbox, outbox)
    inbox.messages = [request(1), GetState(control_id=1), request(2)]
    assert len(port.receive(0.0)) == 3
    port.send(load(0))
    assert outbox.messages == [load(1, num_received=2)]
