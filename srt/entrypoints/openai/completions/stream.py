"""What the events of a completion stream look like: the prompt if it is to be echoed, text, then why it ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from srt.engine_client import FinishReason
from srt.entrypoints.openai.completions.protocol import CompletionChoice, CompletionResponse
from srt.entrypoints.openai.event_writer import EventUsage
from srt.entrypoints.openai.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionStreamFormat:
    """StreamFormat of text completions. `echoes` holds the text of each prompt, or nothing; `n` choices share one."""

    response_id: str
    created: int
    model: str
    n: int
    echoes: Sequence[str]
    text_key: bytes = b'"text"'

    def opening(self, index: int, usage: EventUsage) -> bytes | None:
        """The prompt, if it is echoed."""
        return self.text(index, self.echoes[index // self.n], usage) if self.echoes else None

    def text(self, index: int, text: str, usage: EventUsage) -> bytes:
        """More text."""
        return self._response(usage, CompletionChoice(index=index, text=text))

    def finish(self, index: int, reason: FinishReason, usage: EventUsage) -> bytes:
        """Empty text, and why."""
        choice = CompletionChoice(
            index=index, text="", finish_reason=reason.type, matched_stop=reason.matched
        )
        return self._response(usage, choice)

    def usage(self, usage: Usage) -> bytes:
        """No choices, only usage."""
        return self._response(usage)

    def _response(self, usage: EventUsage, *choices: CompletionChoice) -> bytes:
        response = CompletionResponse(
            id=self.response_id,
            created=self.created,
            model=self.model,
            choices=list(choices),
            usage=usage,
        )
        return msgspec.json.encode(response)
