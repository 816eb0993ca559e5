"""`TextLogprobs`: the log-probabilities of a response's only text, given out with the pieces of it."""

from srt.engine_client import GenerateChunk
from srt.entrypoints.openai.chat.running import RunningChat
from srt.entrypoints.openai.logprobs import TokenLogprob, to_chat_logprobs
from srt.entrypoints.openai.released_tokens import TokenRelease


class TextLogprobs:
    """Of an answer that is nothing but text. `all` are those so far."""

    def __init__(self, chat: RunningChat) -> None:
        self._tokens = TokenRelease(chat.text_bytes)
        self._token_bytes = chat.token_bytes
        self._num_taken = 0
        self.all: list[TokenLogprob] = []

    @classmethod
    def of(cls, chat: RunningChat) -> "TextLogprobs | None":
        """None: nobody wants to know."""
        return cls(chat) if chat.has_logprobs else None

    def add(self, chunk: GenerateChunk) -> None:
        """More of the answer."""
        self.all += to_chat_logprobs(self._tokens.add(chunk), self._token_bytes).content

    def take(self) -> list[TokenLogprob]:
        """Those since the last call."""
        taken = self.all[self._num_taken :]
        self._num_taken = len(self.all)
        return taken
