"""Prompts to ids, off the event loop, and what is refused before it costs anything."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from managers.messages import unpack_token_ids
from managers.tokenizer_pool import MOST_OF_SHORT, TokenizerPool, are_short, longest_token_bytes
from srt.engine_client import ChatPrompt, Prompt, TextPrompt, TokenPrompt
from srt.errors import ContextLengthExceeded, InvalidRequest
from tests.fakes.tokenizer import BOS_ID, VOCAB_SIZE, ByteTokenizer

pytestmark = pytest.mark.anyio
LONGEST = len("<|im_start|>")


class CountingTokenizer(ByteTokenizer):
    """Like Llama's, with a BOS; counts what it was asked."""

    num_encoded = 0

    def __init__(self) -> None:
        super().__init__(add_bos=True)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        self.num_encoded += 1
        return super().encode(text, add_special_tokens=add_special_tokens)


@pytest.fixture
def tokenizer() -> CountingTokenizer:
    return CountingTokenizer()


@pytest.fixture
def pool(tokenizer: CountingTokenizer) -> Iterator[TokenizerPool]:
    pool = TokenizerPool(tokenizer, vocab_size=VOCAB_SIZE)
    yield pool
    pool.close()


async def test_a_hopelessly_long_text_is_refused_without_tokenising_it(
    pool: TokenizerPool, tokenizer: CountingTokenizer
) -> None:
    with pytest.raises(ContextLengthExceeded, match="at most"):
        await pool.tokenize([TextPrompt("x" * (LONGEST * 11))], max_tokens=10)
    assert tokenizer.num_encoded == 0


async def test_a_text_that_might_just_fit_is_tokenised_before_it_is_judged(
    pool: TokenizerPool, tokenizer: CountingTokenizer
) -> None:
    fits = await pool.tokenize([TextPrompt("<|im_start|>" * 8)], max_tokens=10)
    assert len(fits[0].token_ids) == 9
    with pytest.raises(ContextLengthExceeded, match="10 tokens"):
        await pool.tokenize([TextPrompt("x" * 9)], max_tokens=10)


async def test_messages_that_are_hopelessly_long_are_refused_too(
    pool: TokenizerPool, tokenizer: CountingTokenizer
) -> None:
    with pytest.raises(ContextLengthExceeded) as refusal:
        await pool.tokenize([ChatPrompt(messages=[{"role": "user", "content": "x" * 1000}])], max_tokens=10)
    assert (refusal.value.param, tokenizer.num_encoded) == ("messages", 0)


async def test_a_text_gets_the_special_tokens_and_a_chat_only_its_templates(pool: TokenizerPool) -> None:
    text, chat = await pool.tokenize(
        [TextPrompt("a"), ChatPrompt(messages=[{"role": "user", "content": "a"}])], max_tokens=100
    )
    assert text.token_ids == [BOS_ID, 97]
    assert BOS_ID not in chat.token_ids


async def test_what_is_packed_is_what_was_tokenised(pool: TokenizerPool) -> None:
    (prompt,) = await pool.tokenize([TokenPrompt([1, 2, 259])], max_tokens=10)
    assert unpack_token_ids(prompt.packed) == prompt.token_ids == [1, 2, 259]


async def test_ids_beyond_the_models_vocabulary_are_refused_even_from_the_tokenizer() -> None:
    pool = TokenizerPool(ByteTokenizer(), vocab_size=100)
    with pytest.raises(InvalidRequest, match="token id 120"):
        await pool.tokenize([TextPrompt("abx")], max_tokens=10)
    pool.close()


async def test_messages_without_a_template_are_refused() -> None:
    pool = TokenizerPool(ByteTokenizer(chat_template=None), vocab_size=VOCAB_SIZE)
    assert not pool.has_chat_template
    with pytest.raises(InvalidRequest, match="template"):
        await pool.tokenize([ChatPrompt(messages=[{"role": "user", "content": "a"}])], max_tokens=100)
    pool.close()


def test_the_longest_token_is_measured_in_bytes_of_its_text() -> None:
    assert longest_token_bytes(ByteTokenizer()) == LONGEST


class StuckTokenizer(ByteTokenizer):
    """Never done with a long text, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        if len(text) > 10:
            self.let_go.wait(60)
        return super().encode(text, add_special_tokens=add_special_tokens)


async def test_whoever_only_asks_for_ids_keeps_no_prompt_waiting() -> None:
    tokenizer = StuckTokenizer()
    pool = TokenizerPool(tokenizer, vocab_size=VOCAB_SIZE)
    asking = [
        asyncio.create_task(pool.encode(TextPrompt("a long text"), add_special_tokens=True)) for _ in range(4)
    ]
    try:
        (prompt,) = await pool.tokenize([TextPrompt("ab")], max_tokens=10)
        assert prompt.token_ids == [97, 98]
        assert not any(task.done() for task in asking)
    finally:
        tokenizer.let_go.set()
        await asyncio.gather(*asking)
        pool.close()


LONG_TEXT = "x" * (MOST_OF_SHORT + 1)


async def test_a_short_prompt_waits_for_no_long_one() -> None:
    tokenizer = StuckTokenizer()
    pool = TokenizerPool(tokenizer, vocab_size=VOCAB_SIZE)
    long = [
        asyncio.create_task(pool.tokenize([TextPrompt(LONG_TEXT)], max_tokens=2 * MOST_OF_SHORT))
        for _ in range(4)
    ]
    try:
        (prompt,) = await pool.tokenize([TextPrompt("ab")], max_tokens=10)
        assert prompt.token_ids == [97, 98]
        assert not any(task.done() for task in long)
    finally:
        tokenizer.let_go.set()
        await asyncio.gather(*long)
        pool.close()


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("prompts", "is_short"),
    [
        ([TextPrompt("x" * MOST_OF_SHORT)], True),
        ([TextPrompt(LONG_TEXT)], False),
        ([TextPrompt("x" * (MOST_OF_SHORT // 2 + 1))] * 2, False),
        ([TextPrompt("x")] * 33, False),
        ([TokenPrompt([1] * (MOST_OF_SHORT + 1))], False),
        ([ChatPrompt(messages=[USER] * 32)], True),
        ([ChatPrompt(messages=[USER] * 33)], False),
        ([ChatPrompt(messages=[USER], tools=[{}] * 32)], False),
        ([ChatPrompt(messages=[{"role": "user", "content": LONG_TEXT}])], False),
        ([ChatPrompt(messages=[{"role": "user", "content": [{"type": "text", "text": LONG_TEXT}]}])], False),
        ([ChatPrompt(messages=[{"role": "user", "content": [{}] * 33}])], False),
        (
            [ChatPrompt(messages=[{"role": "assistant", "content": None}, {"content": [5, {"text": 5}]}])],
            True,
        ),
    ],
)
def test_what_is_short(prompts: list[Prompt], is_short: bool) -> None:
    assert are_short(prompts) == is_short
