"""`make_answer_parser`: the parser of one choice, put together from the formats that the model speaks."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from srt.errors import StartupError
from srt.parsers.answer import AnswerParser
from srt.parsers.known_tools import KnownTools
from srt.parsers.reasoning.format import ReasoningFormat
from srt.parsers.reasoning.formats import REASONING_FORMATS
from srt.parsers.reasoning.parser import ReasoningParser
from srt.parsers.tool_calls.format import ToolCallFormat, ToolCallParser
from srt.parsers.tool_calls.formats import TOOL_CALL_FORMATS

F = TypeVar("F")


def tool_call_format(name: str) -> ToolCallFormat:
    """The format of this name. Raises StartupError that lists the names there are."""
    return _lookup(TOOL_CALL_FORMATS, name, "tool-call parser")


def reasoning_format(name: str) -> ReasoningFormat:
    """The format of this name. Raises StartupError that lists the names there are."""
    return _lookup(REASONING_FORMATS, name, "reasoning parser")


def make_answer_parser(
    tool_calls: ToolCallFormat | None,
    reasoning: ReasoningFormat | None,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    starts_in_reasoning: bool = False,
    separate_reasoning: bool = True,
) -> AnswerParser:
    """A parser for one choice: reasoning first, calls in what follows. At least one format is given.

    `tools` are those of the request: calls of other functions are content. Without, every name is taken.
    `starts_in_reasoning` is what `ReasoningFormat.starts_inside` says about the prompt. Without `separate_reasoning`
    the reasoning comes as content, with its markers.
    """
    calls = None if tool_calls is None else ToolCallParser(tool_calls, KnownTools(tools))
    if reasoning is None:
        assert calls is not None, "an answer without formats needs no parser"
        return calls
    return ReasoningParser(
        reasoning, starts_inside=starts_in_reasoning, rest=calls, is_shown=not separate_reasoning
    )


def _lookup(formats: Mapping[str, F], name: str, what: str) -> F:
    found = formats.get(name)
    if found is None:
        raise StartupError(f"there is no {what} called {name}, only {', '.join(formats)}")
    return found
