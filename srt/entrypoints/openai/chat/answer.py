"""How the answers of a chat are read: text to reasoning, content and calls, in pieces as it comes or whole.

Knows nothing of HTTP and of no API's words, so every API that is a chat in other words reads with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.choices import Choice
from srt.entrypoints.openai.chat.reasoning_tokens import ReasoningTokenCounter
from srt.entrypoints.openai.released_tokens import TokenBytes
from srt.parsers.answer import AnswerParser, AnswerPart, CallArguments, CallBegin, Content, Reasoning
from srt.parsers.reasoning.format import ReasoningFormat
from srt.parsers.registry import make_answer_parser
from srt.parsers.tool_calls.format import ToolCallFormat

FinishType = Literal["stop", "length", "tool_calls", "abort"]


@dataclass(frozen=True, kw_only=True)
class AnswerPlan:
    """What a request's answers are made of. With neither format all text is content, and `is_plain`."""

    tool_calls: ToolCallFormat | None = None
    reasoning: ReasoningFormat | None = None
    tools: Sequence[Mapping[str, Any]] | None = None  # as in the body: calls of others are content
    is_parallel: bool = True  # more than one call is wanted; otherwise later ones are left out
    separates_reasoning: bool = True  # else it is content, with its markers
    streams_reasoning: bool = True  # else it comes in one piece, when it is whole
    shows_reasoning: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether an answer's text is its content, to the letter."""
        return self.tool_calls is None and self.reasoning is None


@dataclass(slots=True)
class AnsweredCall:
    """A call, whole or as far as it came. `id` is there in formats where the model makes it."""

    id: str | None
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer. Content or reasoning that there is none of is None."""

    content: str | None
    reasoning: str | None
    calls: Sequence[AnsweredCall]
    finish_type: FinishType
    num_reasoning_tokens: int


class AnswerReader:
    """Reads one choice: every chunk of it through `read`, or all of it at once with `read_whole`."""

    def __init__(self, plan: AnswerPlan, token_bytes: TokenBytes, *, starts_in_reasoning: bool) -> None:
        self._plan = plan
        self._parser: AnswerParser | None = None
        self._counter: ReasoningTokenCounter | None = None
        self._held_reasoning: list[str] = []
        if plan.is_plain:
            return
        self._parser = make_answer_parser(
            plan.tool_calls,
            plan.reasoning,
            tools=plan.tools,
            starts_in_reasoning=starts_in_reasoning,
            separate_reasoning=plan.separates_reasoning,
        )
        if plan.reasoning is not None:
            self._counter = ReasoningTokenCounter(
                plan.reasoning, token_bytes, starts_inside=starts_in_reasoning
            )

    @property
    def num_reasoning_tokens(self) -> int:
        """Tokens so far up to the end of the reasoning, its markers included."""
        return 0 if self._counter is None else self._counter.num_tokens

    def read(self, chunk: GenerateChunk) -> list[AnswerPart]:
        """What this chunk adds to the answer, often nothing."""
        parts = self._read(chunk.text, chunk.token_ids)
        return parts if chunk.finish is None else parts + self._read_end()

    def read_whole(self, choice: Choice) -> Answer:
        """All of a choice that has finished."""
        text = choice.text
        parts = self._read(text, choice.token_ids) + self._read_end()
        content = "".join(part.text for part in parts if isinstance(part, Content))
        reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
        return Answer(
            content=content if content or self._parser is None else None,
            reasoning=reasoning or None,
            calls=_calls(parts),
            finish_type=self.finish_type(choice.finish),
            num_reasoning_tokens=self.num_reasoning_tokens,
        )

    def finish_type(self, finish: FinishReason) -> FinishType:
        """Why the answer ended, when all of it is read: calls count if they are complete and it ended by itself."""
        parser = self._parser
        has_called = parser is not None and parser.num_calls > 0 and not parser.is_inside_call
        return "tool_calls" if has_called and finish.type == "stop" else finish.type

    def _read(self, text: str, token_ids: Sequence[int]) -> list[AnswerPart]:
        if self._counter is not None:
            self._counter.add(token_ids)
        if not text:
            return []
        if self._parser is None:
            return [Content(text)]
        return self._wanted(self._parser.push(text))

    def _read_end(self) -> list[AnswerPart]:
        if self._parser is None:
            return []
        return self._wanted(self._parser.finish()) + self._take_reasoning()

    def _wanted(self, parts: list[AnswerPart]) -> list[AnswerPart]:
        plan = self._plan
        if plan.is_parallel and plan.streams_reasoning and plan.shows_reasoning:
            return parts
        wanted: list[AnswerPart] = []
        for part in parts:
            match part:
                case Reasoning(text) if not plan.streams_reasoning or not plan.shows_reasoning:
                    self._held_reasoning.append(text)
                case CallBegin(index) | CallArguments(index) if index > 0 and not plan.is_parallel:
                    pass
                case Reasoning():
                    wanted.append(part)
                case _:
                    wanted += (*self._take_reasoning(), part)
        return wanted

    def _take_reasoning(self) -> list[AnswerPart]:
        """What was held back, in one piece, unless nobody wants it."""
        held, self._held_reasoning = "".join(self._held_reasoning), []
        return [Reasoning(held)] if held and self._plan.shows_reasoning else []


def _calls(parts: Sequence[AnswerPart]) -> list[AnsweredCall]:
    calls: dict[int, AnsweredCall] = {}
    arguments: dict[int, list[str]] = {}
    for part in parts:
        match part:
            case CallBegin(index, name, call_id):
                calls[index] = AnsweredCall(call_id, name)
                arguments[index] = []
            case CallArguments(index, text):
                arguments[index].append(text)
            case _:
                pass
    for index, call in calls.items():
        call.arguments = "".join(arguments[index])
    return list(calls.values())
