"""What the detokenizer makes of token batches: text that is exact, and nothing left over."""

import pytest

from managers.detokenizer_manager import Backlog, Detokenizer, merge_batches
from managers.messages import RequestFinished, RequestOpened, SchedulerLoad, TextBatch, TokenBatch
from managers.messages.to_detokenizer import DetokenizerInput
from srt.engine_client import FinishReason
from srt.tokenizer.tokenizer import IncrementalDecoder
from tests.fakes.tokenizer import EOS_ID, ByteTokenizer

STOPPED = FinishReason(type="stop")
LENGTH = FinishReason(type="length")
POISON = 13


def opened(request_id: int, *, stop: tuple[str, ...] = ()) -> RequestOpened:
    return RequestOpened(request_id=request_id, prompt_tail=[65], cached_tokens=4, stop=stop)


def finished(
    request_id: int,
    reason: FinishReason = LENGTH,
    *,
    text_end: int | None = None,
    num_trimmed_tokens: int = 0,
) -> RequestFinished:
    return RequestFinished(
        request_id=request_id,
        reason=reason,
        prompt_tokens=7,
        completion_tokens=3,
        cached_tokens=4,
        text_end=text_end,
        num_trimmed_tokens=num_trimmed_tokens,
    )


def tokens(
    ids_by_request: dict[int, list[int]],
    *,
    opens: list[RequestOpened] | None = None,
    ends: list[RequestFinished] | None = None,
) -> TokenBatch:
    return TokenBatch(
        request_ids=list(ids_by_request),
        num_tokens=[len(ids) for ids in ids_by_request.values()],
        token_ids=[token_id for ids in ids_by_request.values() for token_id in ids],
        opened=opens or [],
        finished=ends or [],
    )


def text_of(batch: TextBatch, request_id: int) -> str:
    return "".join(
        text for other_id, text in zip(batch.request_ids, batch.texts, strict=True) if other_id == request_id
    )


class Stream:
    """One request through a detokenizer, a token at a time."""

    def __init__(self, *, stop: tuple[str, ...] = ()) -> None:
        self.detokenizer = Detokenizer(ByteTokenizer())
        self.detokenizer.process(tokens({}, opens=[opened(1, stop=stop)]))
        self.text = ""

    def push(self, text: str | bytes) -> str:
        """The text shown after these bytes, one token each."""
        for byte in text.encode() if isinstance(text, str) else text:
            self.text += text_of(self.detokenizer.process(tokens({1: [byte]})), 1)
        return self.text

    def end(self, text: str = "", *, text_end: int | None = None) -> str:
        """All of the text, after a last batch that carries these bytes."""
        batch = tokens({1: list(text.encode())}, ends=[finished(1, text_end=text_end)])
        self.text += text_of(self.detokenizer.process(batch), 1)
        return self.text


def test_a_stream_of_single_tokens_gives_the_whole_text_without_half_characters() -> None:
    whole = "naïve 世界 🙂 end"
    stream = Stream()
    pieces = [stream.push(bytes([byte])) for byte in whole.encode()]
    assert all(whole.startswith(piece) for piece in pieces)
    assert stream.end() == whole


def test_a_character_cut_off_by_the_end_becomes_a_replacement_character() -> None:
    stream = Stream()
    assert stream.push("ok 世".encode()[:-1]) == "ok "
    assert stream.end() == "ok \ufffd"


def test_what_may_be_the_start_of_a_stop_string_is_held_back_and_only_that() -> None:
    stream = Stream(stop=("<end>",))
    assert stream.push("abc<en") == "abc"


def test_what_only_looked_like_a_stop_string_is_released_by_the_next_character() -> None:
    stream = Stream(stop=("<end>",))
    stream.push("abc<en")
    assert stream.push("x") == "abc<enx"


def test_what_is_held_back_is_released_when_the_answer_ends_without_a_stop_string() -> None:
    stream = Stream(stop=("xxasyy",))
    stream.push("it is xxas")
    assert stream.end() == "it is xxas"


def test_a_stop_string_is_cut_off_where_the_scheduler_says() -> None:
    stream = Stream(stop=("<end>",))
    stream.push("abc<en")
    assert stream.end("d>tail", text_end=3) == "abc"


def test_a_stop_string_that_is_to_be_kept_is_shown_to_its_end() -> None:
    stream = Stream(stop=("<end>",))
    stream.push("abc<en")
    assert stream.end("d>tail", text_end=8) == "abc<end>"


def test_a_stop_token_is_no_text_but_stays_among_the_ids() -> None:
    detokenizer = Detokenizer(ByteTokenizer())
    batch = detokenizer.process(
        tokens({1: [104, 105, 33]}, opens=[opened(1)], ends=[finished(1, STOPPED, num_trimmed_tokens=1)])
    )
    assert (batch.texts, batch.token_ids) == (["hi"], [104, 105, 33])


def test_a_request_that_was_never_opened_gets_its_last_word_passed_on() -> None:
    last_word = finished(5, FinishReason(type="abort", message="queue full", status_code=503))
    batch = Detokenizer(ByteTokenizer()).process(tokens({}, ends=[last_word]))
    assert (batch.request_ids, batch.finished) == ([], [last_word])


def test_every_way_to_end_drops_the_state() -> None:
    detokenizer = Detokenizer(ByteTokenizer())
    reasons = [STOPPED, LENGTH, FinishReason(type="abort"), FinishReason(type="abort", status_code=500)]
    for request_id, reason in enumerate(reasons):
        detokenizer.process(tokens({request_id: [65]}, opens=[opened(request_id)]))
        detokenizer.process(tokens({}, ends=[finished(request_id, reason)]))
    assert detokenizer.num_open == 0


def test_tokens_behind_the_last_word_are_dropped() -> None:
    detokenizer = Detokenizer(ByteTokenizer())
    detokenizer.process(tokens({1: [65]}, opens=[opened(1)], ends=[finished(1)]))
    assert detokenizer.process(tokens({1: [66]})).texts == []


def test_the_texts_of_several_requests_keep_apart() -> None:
    detokenizer = Detokenizer(ByteTokenizer())
    detokenizer.process(tokens({}, opens=[opened(1), opened(2)]))
    first = "é".encode()
    batch = detokenizer.process(tokens({1: [first[0]], 2: [66, 67]}))
    assert (batch.request_ids, batch.texts, batch.num_tokens, batch.cached_tokens) == (
        [1, 2],
        ["", "BC"],
        [1, 2],
        [4, 4],
    )
    assert detokenizer.process(tokens({2: [68], 1: [first[1]]})).texts == ["D", "é"]


class PoisonedDecoder:
    """Cannot take one particular id."""

    def __init__(self, decoder: IncrementalDecoder) -> None:
        self._decoder = decoder

    def push(self, token_id: int) -> str:
        if token_id == POISON:
            raise ValueError("poison")
        return self._decoder.push(token_id)

    def finish(self) -> str:
        return self._decoder.finish()


class PoisonedTokenizer(ByteTokenizer):
    def incremental_decoder(self, **kwargs: object) -> PoisonedDecoder:  # type: ignore[override]
        return PoisonedDecoder(super().incremental_decoder())


@pytest.fixture
def poisoned() -> Detokenizer:
    detokenizer = Detokenizer(PoisonedTokenizer())
    detokenizer.process(tokens({}, opens=[opened(1), opened(2)]))
    return detokenizer


def test_a_request_that_cannot_be_decoded_ends_with_an_error_of_its_own(poisoned: Detokenizer) -> None:
    batch = poisoned.process(tokens({1: [POISON], 2: [66]}))
    assert [(end.request_id, end.reason.status_code) for end in batch.finished] == [(1, 500)]
    assert (batch.request_ids, batch.texts) == ([2], ["B"])


def test_a_request_that_was_given_up_says_nothing_more_before_its_last_word(poisoned: Detokenizer) -> None:
    poisoned.process(tokens({1: [POISON]}))
    assert poisoned.process(tokens({1: [65], 2: [66]})).request_ids == [2]
    assert poisoned.num_open == 1


def test_a_last_token_that_cannot_be_decoded_turns_the_last_word_into_an_error(poisoned: Detokenizer) -> None:
    batch = poisoned.process(tokens({1: [POISON]}, ends=[finished(1)]))
    assert [(end.reason.status_code, end.completion_tokens) for end in batch.finished] == [(500, 3)]


LOAD = SchedulerLoad(
    dp_rank=0,
    num_running=1,
    num_waiting=0,
    num_waiting_uncached_tokens=0,
    num_used_tokens=9,
    num_cached_tokens=0,
    max_total_num_tokens=100,
    max_running_requests=8,
    gen_throughput=0.0,
    cache_hit_rate=0.0,
    turn=3,
)


def test_batches_that_have_piled_up_are_one_batch_with_the_same_text() -> None:
    batches: list[DetokenizerInput] = [
        tokens({1: [65], 2: [97]}, opens=[opened(1), opened(2)]),
        tokens({2: [98], 1: [66]}),
        tokens({1: [67]}, ends=[finished(1)]),
    ]
    (merged,) = merge_batches(batches)
    assert isinstance(merged, TokenBatch)
    batch = Detokenizer(ByteTokenizer()).process(merged)
    assert (batch.request_ids, batch.texts, batch.num_tokens) == ([1, 2], ["ABC", "ab"], [3, 2])
    assert [end.request_id for end in batch.finished] == [1]


def test_a_reply_never_overtakes_text() -> None:
    before, between, after = tokens({1: [65]}), LOAD, tokens({1: [66]})
    assert list(merge_batches([before, between, after])) == [before, between, after]


def test_a_special_token_is_skipped() -> None:
    detokenizer = Detokenizer(ByteTokenizer())
    batch = detokenizer.process(tokens({1: [65, EOS_ID, 66]}, opens=[opened(1)]))
    assert batch.texts == ["AB"]


def note(backlog: Backlog, messages: list[DetokenizerInput]) -> None:
    backlog.note(messages, list(merge_batches(messages)))


def test_how_far_it_is_behind_is_the_most_that_waited_since_it_last_said_so() -> None:
    backlog = Backlog()
    note(backlog, [tokens({1: [65]}), LOAD, tokens({1: [66]}), tokens({1: [67]})])
    note(backlog, [tokens({1: [68]})])
    first, second = backlog.take_figures(3), backlog.take_figures(3)
    assert (first.num_open, first.backlog, first.num_merged_batches) == (3, 2, 2)
    assert (second.backlog, second.num_merged_batches) == (0, 2)


def test_pieces_that_became_one_are_counted() -> None:
    backlog = Backlog()
    note(backlog, [tokens({1: [65], 2: [65]}), tokens({1: [66]}), tokens({1: [67], 3: [67]})])
    note(backlog, [tokens({1: [68]}), LOAD, tokens({1: [69]})])
    assert backlog.take_figures(3).num_coalesced_chunks == 2
