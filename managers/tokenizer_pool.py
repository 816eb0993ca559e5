"""Render and tokenise off the event loop, so that a huge prompt stops nobody's stream.

A text that cannot possibly fit is refused by its length alone, before any tokenising.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from managers.messages.base import pack_token_ids
from srt.engine_client import ChatPrompt, Prompt, TextPrompt, TokenPrompt
from srt.errors import ContextLengthExceeded, InvalidRequest
from srt.observability.request_timing import RequestTiming
from srt.tokenizer.chat_template import ChatTemplate
from srt.tokenizer.tokenizer import Tokenizer

P = ParamSpec("P")
R = TypeVar("R")

# Short prompts, as most are, have a lane of their own, so that none waits for a long one. Who only wants to know ids or
# text, of any length, waits in a third, and no prompt waits for it. More threads would only fight for the interpreter.
NUM_THREADS_FOR_SHORT, NUM_THREADS_FOR_LONG, NUM_THREADS_FOR_QUESTIONS = 1, 2, 1
# Characters, or ids, of all prompts of a request together, and prompts, messages and tools: a few milliseconds.
MOST_OF_SHORT, MOST_PARTS_OF_SHORT = 8192, 32


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """A prompt's ids, and the same packed for the wire."""

    token_ids: list[int]
    packed: bytes


class TokenizerPool:
    """A few threads around one tokenizer. `vocab_size` is the model's: ids beyond it are refused."""

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._chat_template = ChatTemplate.of(tokenizer)
        self._longest_token = longest_token_bytes(tokenizer)
        self._short = ThreadPoolExecutor(NUM_THREADS_FOR_SHORT, thread_name_prefix="tokenizer")
        self._long = ThreadPoolExecutor(NUM_THREADS_FOR_LONG, thread_name_prefix="tokenizer of long")
        self._questions = ThreadPoolExecutor(
            NUM_THREADS_FOR_QUESTIONS, thread_name_prefix="tokenizer question"
        )

    @property
    def has_chat_template(self) -> bool:
        """Whether messages can be rendered."""
        return self._tokenizer.chat_template is not None

    @property
    def chat_template(self) -> str | None:
        """The template's source."""
        return self._tokenizer.chat_template

    async def tokenize(
        self, prompts: Sequence[Prompt], *, max_tokens: int, timing: RequestTiming | None = None
    ) -> list[TokenizedPrompt]:
        """All prompts of one request, in one job. Raises RequestError for an empty, too long or wrong one."""
        threads = self._short if are_short(prompts) else self._long
        return await self._in_thread(threads, self._tokenize, prompts, max_tokens, timing or RequestTiming())

    async def encode(self, prompt: Prompt, *, add_special_tokens: bool) -> list[int]:
        """The ids of one prompt, of any length. Raises InvalidRequest."""
        return await self._in_thread(self._questions, self._encode, prompt, add_special_tokens, None)

    async def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of ids. Raises InvalidRequest for one outside the vocabulary."""
        return await self._in_thread(self._questions, self._decode, token_ids, skip_special_tokens)

    def token_bytes(self, token_id: int, *, skip_special_tokens: bool = False) -> bytes:
        """What one token is in the text. Raises InvalidRequest for one outside the vocabulary."""
        self._check_ids((token_id,), param="tokens")
        return self._tokenizer.token_bytes(token_id, skip_special_tokens=skip_special_tokens)

    def close(self) -> None:
        """Let the threads end; jobs that wait are dropped."""
        for threads in (self._short, self._long, self._questions):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(
        self, threads: ThreadPoolExecutor, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        job = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(threads, job)

    # Below: in a thread of the pool.

    def _tokenize(
        self, prompts: Sequence[Prompt], max_tokens: int, timing: RequestTiming
    ) -> list[TokenizedPrompt]:
        rendered = [self._render(prompt) if isinstance(prompt, ChatPrompt) else "" for prompt in prompts]
        timing.note_templated()
        tokenized = []
        for prompt, text in zip(prompts, rendered, strict=True):
            if isinstance(prompt, ChatPrompt):
                token_ids = self._encode_text(text, False, max_tokens, prompt)
            else:
                token_ids = self._encode(prompt, True, max_tokens)
            if not token_ids:
                raise InvalidRequest("the prompt is empty", param=_field(prompt))
            if len(token_ids) >= max_tokens:
                raise _too_long(f"The prompt has {len(token_ids)} tokens", max_tokens, prompt)
            tokenized.append(TokenizedPrompt(token_ids, pack_token_ids(token_ids)))
        timing.note_tokenized()
        return tokenized

    def _encode(self, prompt: Prompt, add_special_tokens: bool, max_tokens: int | None) -> list[int]:
        match prompt:
            case TokenPrompt(token_ids):
                self._check_ids(token_ids, param=_field(prompt))
                return token_ids
            case TextPrompt(text):
                return self._encode_text(text, add_special_tokens, max_tokens, prompt)
            case ChatPrompt():
                # The template writes the special tokens itself.
                return self._encode_text(self._render(prompt), False, max_tokens, prompt)

    def _render(self, prompt: ChatPrompt) -> str:
        return self._chat_template.render(
            prompt.messages,
            tools=prompt.tools,
            add_generation_prompt=prompt.add_generation_prompt,
            continue_final_message=prompt.continue_final_message,
            template_kwargs=prompt.template_kwargs,
        )

    def _encode_text(
        self, text: str, add_special_tokens: bool, max_tokens: int | None, prompt: Prompt
    ) -> list[int]:
        # Lone surrogates are the tokenizer's business; here only lengths count.
        num_bytes = len(text.encode(errors="surrogatepass"))
        least_tokens = num_bytes // self._longest_token
        if max_tokens is not None and least_tokens > max_tokens:
            raise _too_long(
                f"The prompt has {num_bytes} bytes, at least {least_tokens} tokens", max_tokens, prompt
            )
        token_ids = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        self._check_ids(token_ids, param=_field(prompt))
        return token_ids

    def _decode(self, token_ids: Sequence[int], skip_special_tokens: bool) -> str:
        self._check_ids(token_ids, param="tokens")
        return self._tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def _check_ids(self, token_ids: Sequence[int], *, param: str) -> None:
        largest = self._vocab_size - 1
        if token_ids and not (min(token_ids) >= 0 and max(token_ids) <= largest):
            wrong = next(token_id for token_id in token_ids if not 0 <= token_id <= largest)
            raise InvalidRequest(f"token id {wrong} is outside the vocabulary (0 to {largest})", param=param)


def are_short(prompts: Sequence[Prompt]) -> bool:
    """Whether these take no time worth mentioning. Looks at no more of them than of short ones."""
    num_left = MOST_OF_SHORT
    if len(prompts) > MOST_PARTS_OF_SHORT:
        return False
    for prompt in prompts:
        match prompt:
            case TextPrompt(text):
                num_left -= len(text)
            case TokenPrompt(token_ids):
                num_left -= len(token_ids)
            case ChatPrompt(messages=messages, tools=tools):
                if len(messages) + len(tools or ()) > MOST_PARTS_OF_SHORT:
                    return False
                num_left -= sum(_num_chars(message.get("content")) for message in messages)
    return num_left >= 0


def _num_chars(content: Any) -> int:
    """Of a message's content, whatever it is: it has not been checked yet."""
    if isinstance(content, str):
        return len(content)
    if not isinstance(content, list):
        return 0
    if len(content) > MOST_PARTS_OF_SHORT:
        return MOST_OF_SHORT + 1
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return sum(len(text) for text in texts if isinstance(text, str))


def longest_token_bytes(tokenizer: Tokenizer) -> int:
    """The most bytes of text that one token can stand for, at least 1. Looks at every token once."""
    longest = 1
    for token_id in range(tokenizer.vocab_size):
        # Behind another token: the first of a sequence may lose its leading space.
        decoder = tokenizer.incremental_decoder(prompt_tail=(token_id, token_id), skip_special_tokens=False)
        text = decoder.push(token_id) + decoder.finish()
        longest = max(longest, len(text.encode(errors="surrogatepass")))
    return longest


def _field(prompt: Prompt) -> str:
    return "messages" if isinstance(prompt, ChatPrompt) else "prompt"


def _too_long(what: str, max_tokens: int, prompt: Prompt) -> ContextLengthExceeded:
    return ContextLengthExceeded(
        f"{what}, but prompt and answer together may have {max_tokens} at most", param=_field(prompt)
    )
