"""What the events of a completion stream look like: the prompt if it is to be echoed, text, then why it ended."""

from dataclasses import dataclass, field

import msgspec

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.completions.protocol import CompletionChoice, CompletionResponse
from srt.entrypoints.openai.completions.running import RunningCompletion
from srt.entrypoints.openai.logprobs import CompletionLogprobs
from srt.entrypoints.openai.released_tokens import ReleasedTokens, TokenRelease, prompt_tokens
from srt.entrypoints.openai.usage import EventUsage, Usage
from srt.entrypoints.sse import event


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionStreamFormat:
    """TextFormat of text completions."""

    completion: RunningCompletion
    created: int
    model: str
    text_key: bytes = b'"text"'

    def opening(self, index: int, usage: EventUsage) -> bytes | None:
        """The prompt, if it is echoed."""
        return self.text(index, self.completion.echo(index), usage) if self.completion.echoes else None

    def text(
        self, index: int, text: str, usage: EventUsage, logprobs: CompletionLogprobs | None = None
    ) -> bytes:
        """More text."""
        return self._response(usage, CompletionChoice(index=index, text=text, logprobs=logprobs))

    def finish(
        self,
        index: int,
        reason: FinishReason,
        usage: EventUsage,
        logprobs: CompletionLogprobs | None = None,
    ) -> bytes:
        """Empty text, and why."""
        choice = CompletionChoice(
            index=index,
            text="",
            logprobs=logprobs,
            finish_reason=reason.type,
            matched_stop=reason.matched,
        )
        return self._response(usage, choice)

    def usage(self, usage: Usage) -> bytes:
        """No choices, only usage."""
        return self._response(usage)

    def _response(self, usage: EventUsage, *choices: CompletionChoice) -> bytes:
        response = CompletionResponse(
            id=self.completion.generation.request_id,
            created=self.created,
            model=self.model,
            choices=list(choices),
            usage=usage,
        )
        return msgspec.json.encode(response)


@dataclass(slots=True)
class _ChoiceStream:
    """One choice while it is streamed. Log-probabilities wait for an event that they can go with."""

    tokens: TokenRelease
    waiting: ReleasedTokens = field(default_factory=ReleasedTokens)


class CompletionLogprobFormat:
    """DetailedFormat of text completions with log-probabilities."""

    def __init__(self, text_format: CompletionStreamFormat) -> None:
        self._format = text_format
        self._completion = text_format.completion
        self._choices: dict[int, _ChoiceStream] = {}

    def events(self, chunk: GenerateChunk, usage: EventUsage) -> list[bytes]:
        """See event_writer.py."""
        index = chunk.index
        events: list[bytes] = []
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = _ChoiceStream(self._completion.token_release(index))
            if self._completion.echoes:
                events.append(event(self._opening(chunk, usage)))
        choice.waiting.extend(choice.tokens.add(chunk))
        if chunk.text:
            logprobs = self._take_logprobs(choice)
            events.append(event(self._format.text(index, chunk.text, usage, logprobs)))
        if chunk.finish is not None:
            logprobs = self._take_logprobs(choice)
            events.append(event(self._format.finish(index, chunk.finish, usage, logprobs)))
        return events

    def usage(self, usage: Usage) -> bytes:
        """See event_writer.py."""
        return self._format.usage(usage)

    def _opening(self, chunk: GenerateChunk, usage: EventUsage) -> bytes:
        completion = self._completion
        echo = completion.echo(chunk.index)
        logprobs = None
        if chunk.prompt_logprobs is not None:
            logprobs = completion.to_logprobs(
                prompt_tokens(chunk.prompt_logprobs, echo, completion.text_bytes)
            )
        return self._format.text(chunk.index, echo, usage, logprobs)

    def _take_logprobs(self, choice: _ChoiceStream) -> CompletionLogprobs | None:
        if not choice.waiting.token_ids:
            return None
        released, choice.waiting = choice.waiting, ReleasedTokens()
        return self._completion.to_logprobs(released)
