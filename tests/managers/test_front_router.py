"""What is said by the engine reaches the front it is for."""

from itertools import islice

from managers.front_place import ALONE, FrontPlace, front_of
from managers.front_router import FrontRouter, split_by_front
from managers.messages import (
    FlushCacheReply,
    GetStateReply,
    RequestLogprobs,
    SchedulerLoad,
    TextBatch,
    TokenizerManagerInput,
)
from srt.engine_client import Logprobs
from tests.fakes.channel import FakeChannel
from tests.managers.front import last_word, text_batch

LOAD = SchedulerLoad(
    dp_rank=0,
    num_running=1,
    num_waiting=0,
    num_waiting_uncached_tokens=0,
    num_used_tokens=5,
    num_cached_tokens=0,
    max_total_num_tokens=100,
    max_running_requests=8,
    gen_throughput=0.0,
    cache_hit_rate=0.0,
    turn=1,
)


def test_numbers_of_three_fronts_differ_and_say_whose_they_are() -> None:
    numbers = {place: list(islice(FrontPlace(place, 3).new_ids(), 100)) for place in range(3)}
    assert len(set().union(*numbers.values())) == 300
    assert all(front_of(number, 3) == place for place, given in numbers.items() for number in given)
    assert list(islice(ALONE.new_ids(), 3)) == [1, 2, 3]


def test_a_batch_is_split_by_front_and_each_part_is_in_order() -> None:
    batch = text_batch({4: "ab", 7: "c", 6: "def", 9: "g"}, ends=[last_word(7), last_word(8)])
    batch.logprobs.append(RequestLogprobs(request_id=6, output=Logprobs(token_ids=[1])))
    even, odd = split_by_front(batch, 2)
    assert even is not None
    assert odd is not None
    assert (even.request_ids, even.texts, even.num_tokens) == ([4, 6], ["ab", "def"], [2, 3])
    assert even.token_ids == [ord(character) for character in "abdef"]
    assert [finished.request_id for finished in even.finished] == [8]
    assert [logprobs.request_id for logprobs in even.logprobs] == [6]
    assert (odd.request_ids, odd.texts, odd.token_ids) == ([7, 9], ["c", "g"], [ord("c"), ord("g")])
    assert [finished.request_id for finished in odd.finished] == [7]


def test_a_front_that_a_batch_does_not_concern_gets_nothing() -> None:
    assert [part is None for part in split_by_front(text_batch({4: "a"}), 3)] == [True, False, True]


def test_loads_go_to_all_and_a_reply_to_the_one_that_asked() -> None:
    fronts = [FakeChannel[TokenizerManagerInput]() for _ in range(2)]
    router = FrontRouter(fronts)
    flushed, state = FlushCacheReply(control_id=5, done=True), GetStateReply(control_id=4, state={})
    for message in (LOAD, flushed, state):
        router.send(message)
    assert fronts[0].messages == [LOAD, state]
    assert fronts[1].messages == [LOAD, flushed]


def test_one_front_gets_every_batch_as_it_is() -> None:
    front = FakeChannel[TokenizerManagerInput]()
    batch: TextBatch = text_batch({4: "a", 5: "b"})
    FrontRouter([front]).send(batch)
    assert front.messages[0] is batch
