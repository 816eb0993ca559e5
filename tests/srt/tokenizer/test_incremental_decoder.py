"""The property that counts: pushes and the finish together are the answer's text, wherever it is cut."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders

from srt.tokenizer.fast_tokenizer import FastTokenizer
from srt.tokenizer.incremental_decoder import MAX_TOKENS_OF_A_CHARACTER, PieceDecoder, WindowDecoder
from tests.fakes import small_tokenizers as small

BYTE_LEVEL = FastTokenizer(small.byte_level_bpe())
LLAMA = FastTokenizer(small.sentencepiece(), bos_token="<s>")
METASPACE = FastTokenizer(small.sentencepiece(small.metaspace_decoder()))
METASPACE_NEVER = FastTokenizer(small.sentencepiece(small.metaspace_decoder("never")))
GEMMA = FastTokenizer(small.sentencepiece(small.gemma_decoder()))
WORD_PIECE = FastTokenizer(small.word_piece())
WORD_END = FastTokenizer(small.word_end_bpe())

SENTENCEPIECE = [LLAMA, METASPACE, METASPACE_NEVER, GEMMA]
ALL = [BYTE_LEVEL, *SENTENCEPIECE, WORD_PIECE, WORD_END]


def pushes(
    tokenizer: FastTokenizer, answer: Sequence[int], *, prompt: Sequence[int] = (), skip: bool = True
) -> list[str]:
    """What each push gives, and the finish last."""
    decoder = tokenizer.incremental_decoder(prompt_tail=prompt[-5:], skip_special_tokens=skip)
    return [*map(decoder.push, answer), decoder.finish()]


def ids_of(tokenizer: FastTokenizer) -> st.SearchStrategy[list[int]]:
    # Some ids beyond the end: a model's vocabulary may be padded.
    return st.lists(st.integers(0, tokenizer.vocab_size + 2), max_size=40)


def answers(tokenizers: Sequence[FastTokenizer]) -> st.SearchStrategy[tuple[FastTokenizer, list[int]]]:
    return st.sampled_from(tokenizers).flatmap(
        lambda tokenizer: st.tuples(st.just(tokenizer), ids_of(tokenizer))
    )


@given(answers(ALL), st.booleans())
def test_pushes_and_finish_give_the_text_of_the_whole_sequence(
    answer: tuple[FastTokenizer, list[int]], skip: bool
) -> None:
    tokenizer, ids = answer
    if tokenizer is WORD_PIECE or tokenizer is WORD_END:
        ids = [token_id for token_id in ids if token_id < tokenizer.vocab_size]
    assert "".join(pushes(tokenizer, ids, skip=skip)) == tokenizer.decode(ids, skip_special_tokens=skip)


@given(ids_of(BYTE_LEVEL), st.booleans())
def test_byte_level_text_equals_the_tokenizers_packages(ids: list[int], skip: bool) -> None:
    expected = small.byte_level_bpe().decode(ids, skip_special_tokens=skip)
    assert BYTE_LEVEL.decode(ids, skip_special_tokens=skip) == expected


@given(st.lists(st.integers(0, 49151), max_size=60), st.booleans())
@settings(max_examples=300)
def test_the_default_models_text_equals_the_tokenizers_packages(
    smollm2: FastTokenizer, smollm2_backend: Backend, ids: list[int], skip: bool
) -> None:
    expected = smollm2_backend.decode(ids, skip_special_tokens=skip)
    assert "".join(pushes(smollm2, ids, skip=skip)) == expected
    assert smollm2.decode(ids, skip_special_tokens=skip) == expected


@given(st.text(max_size=30), st.sampled_from(SENTENCEPIECE), st.booleans())
def test_sentencepiece_text_equals_the_tokenizers_packages(
    text: str, tokenizer: FastTokenizer, skip: bool
) -> None:
    # Ids of a real text: of bytes that make no characters the package marks whole runs, valid ones too; we do not.
    ids = tokenizer.encode(text)
    expected = tokenizer._backend.decode(ids, skip_special_tokens=skip)
    assert "".join(pushes(tokenizer, ids, skip=skip)) == expected


@given(st.lists(st.integers(0, 255), max_size=30), st.sampled_from([LLAMA, GEMMA]))
def test_bytes_that_are_no_characters_are_replaced_one_by_one(
    values: list[int], tokenizer: FastTokenizer
) -> None:
    first_byte = tokenizer._backend.token_to_id("<0x00>")
    answer = [first_byte + value for value in values]
    text = "".join(pushes(tokenizer, answer, prompt=[tokenizer._backend.token_to_id("a")]))
    assert text == bytes(values).decode(errors="replace")


@given(answers([BYTE_LEVEL, *SENTENCEPIECE]), st.data(), st.booleans())
def test_an_answer_is_its_own_text_whatever_prompt_it_follows(
    answer: tuple[FastTokenizer, list[int]], data: st.DataObject, skip: bool
) -> None:
    tokenizer, ids = answer
    a = tokenizer._backend.token_to_id("a")
    prompt = [*data.draw(ids_of(tokenizer)), a]  # ends with a whole character
    whole = tokenizer.decode([*prompt, *ids], skip_special_tokens=skip)
    assert whole == tokenizer.decode(prompt, skip_special_tokens=skip) + "".join(
        pushes(tokenizer, ids, prompt=prompt, skip=skip)
    )


@given(st.sampled_from([WORD_PIECE, WORD_END]), st.data(), st.booleans())
def test_a_windowed_answer_is_the_continuation_of_its_prompt(
    tokenizer: FastTokenizer, data: st.DataObject, skip: bool
) -> None:
    some_ids = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=20)
    prompt = [1, *data.draw(some_ids)]
    answer = data.draw(some_ids)
    whole = tokenizer.decode([*prompt, *answer], skip_special_tokens=skip)
    before = tokenizer.decode(prompt, skip_special_tokens=skip)
    decoder = tokenizer.incremental_decoder(prompt_tail=prompt, skip_special_tokens=skip)
    assert whole == before + "".join(map(decoder.push, answer)) + decoder.finish()


# Of the bytes ED A0, which begin no character, Python waits for a third before it says so.
@example((LLAMA, [3 + 0xED, 3 + 0xA0]))
@given(answers([BYTE_LEVEL, *SENTENCEPIECE]))
def test_no_more_is_held_back_than_an_incomplete_character(answer: tuple[FastTokenizer, list[int]]) -> None:
    tokenizer, ids = answer
    decoder = tokenizer.incremental_decoder(prompt_tail=[1, 3])
    so_far = ""
    for count, token_id in enumerate(ids, start=1):
        so_far += decoder.push(token_id)
        whole = "".join(pushes(tokenizer, ids[:count], prompt=[1, 3]))
        assert whole in (so_far, so_far + "\ufffd", so_far + "\ufffd\ufffd")


def test_each_kind_of_tokenizer_gets_the_decoder_for_it() -> None:
    for tokenizer in [BYTE_LEVEL, *SENTENCEPIECE]:
        assert isinstance(tokenizer.incremental_decoder(), PieceDecoder)
    for tokenizer in [WORD_PIECE, WORD_END]:
        assert isinstance(tokenizer.incremental_decoder(), WindowDecoder)


@pytest.mark.parametrize(
    "make_decoder",
    [
        lambda: None,
        lambda: decoders.Sequence([decoders.ByteFallback(), decoders.Replace("▁", " ")]),
        lambda: decoders.Sequence([decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)]),
        lambda: decoders.Sequence([decoders.Fuse(), decoders.Replace("▁", " ")]),
        lambda: decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 1)]),
    ],
)
def test_a_decoder_that_does_not_work_token_by_token_gets_a_window(
    make_decoder: Callable[[], decoders.Decoder | None],
) -> None:
    backend = small.sentencepiece()
    backend.decoder = make_decoder()
    assert isinstance(FastTokenizer(backend).incremental_decoder(), WindowDecoder)


def test_a_cjk_character_split_over_tokens_appears_once_and_whole() -> None:
    ids = BYTE_LEVEL.encode("A 世a世界b界")
    given_texts = pushes(BYTE_LEVEL, ids)
    assert "".join(given_texts) == "A 世a世界b界"
    assert "\ufffd" not in "".join(given_texts)
    assert len(ids) > len("A 世a世界b界")


def test_a_run_of_invalid_bytes_comes_out_as_it_arrives() -> None:
    lone_byte = BYTE_LEVEL._backend.token_to_id("Ģ")  # 0x80
    assert pushes(BYTE_LEVEL, [lone_byte] * 3) == ["\ufffd", "\ufffd", "\ufffd", ""]


def test_a_genuine_replacement_character_comes_out_at_once() -> None:
    token_id = LLAMA._backend.token_to_id("\ufffd")
    assert pushes(LLAMA, [token_id] * 2, prompt=[5]) == ["\ufffd", "\ufffd", ""]


def test_a_genuine_replacement_character_does_not_stall_a_window() -> None:
    ids = [WORD_PIECE._backend.token_to_id("\ufffd")] * 12
    given_texts = pushes(WORD_PIECE, ids, prompt=[1])
    assert "".join(given_texts[:-1]).count("\ufffd") >= 8


def test_an_answer_cut_inside_a_character_ends_with_one_replacement() -> None:
    ids = BYTE_LEVEL.encode("🎉")
    assert len(ids) > 1
    assert pushes(BYTE_LEVEL, ids[:-1])[-1] == "\ufffd"


def test_a_special_token_is_empty_or_itself() -> None:
    end = BYTE_LEVEL._backend.token_to_id("<|end|>")
    assert pushes(BYTE_LEVEL, [end, end]) == ["", "", ""]
    assert pushes(BYTE_LEVEL, [end], skip=False) == ["<|end|>", ""]


def test_a_special_token_between_bytes_of_a_character_changes_nothing_when_skipped() -> None:
    end = BYTE_LEVEL._backend.token_to_id("<|end|>")
    first, *rest = BYTE_LEVEL.encode("🎉")
    assert "".join(pushes(BYTE_LEVEL, [first, end, *rest])) == "🎉"


def test_an_answer_keeps_its_leading_space() -> None:
    ab = LLAMA._backend.token_to_id("▁ab")
    assert pushes(LLAMA, [ab], prompt=[LLAMA._backend.token_to_id("a")]) == [" ab", ""]


def test_the_start_of_a_sequence_strips_the_space_that_encoding_added() -> None:
    ab = LLAMA._backend.token_to_id("▁ab")
    assert pushes(LLAMA, [ab, ab]) == ["ab", " ab", ""]
    assert pushes(METASPACE, [ab, ab]) == ["ab", " ab", ""]


def test_a_prompt_of_a_hidden_bos_alone_leaves_the_answer_at_the_start() -> None:
    ab, bos = LLAMA._backend.token_to_id("▁ab"), LLAMA._backend.token_to_id("<s>")
    assert pushes(LLAMA, [ab], prompt=[bos]) == ["ab", ""]
    assert pushes(LLAMA, [ab], prompt=[bos], skip=False) == [" ab", ""]


def test_an_empty_token_does_not_lose_a_windows_context() -> None:
    world, empty = WORD_PIECE._backend.token_to_id("world"), WORD_PIECE._backend.token_to_id("<|end|>")
    assert pushes(WORD_PIECE, [empty, empty, empty, world], prompt=[1])[3] == " world"


@pytest.mark.parametrize("text", ["a", "", "\ufffd"], ids=["text", "nothing", "no character"])
def test_a_window_stays_short_however_long_the_answer_is(text: str) -> None:
    lengths: list[int] = []

    def decode(token_ids: Sequence[int]) -> str:
        lengths.append(len(token_ids))
        return "".join("p" if token_id == 0 else text for token_id in token_ids)

    decoder = WindowDecoder(decode, lambda token_id: False, prompt_tail=[0, 0])
    told = "".join(decoder.push(1) for _ in range(500)) + decoder.finish()
    assert told == text * 500
    assert max(lengths) <= 2 * (MAX_TOKENS_OF_A_CHARACTER + 1)
    assert len(lengths) <= 2 * 500 + 3
