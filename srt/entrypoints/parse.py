"""/parse_function_call and /separate_reasoning: a finished answer to its parts, for those who keep the text themselves.

Parsed in a thread: a text may be as long as a body.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from srt.engine_client import EngineClient
from srt.entrypoints.refused_fields import Refused, refuse_fields
from srt.entrypoints.request_body import read_json
from srt.errors import InvalidRequest
from srt.parsers.answer import AnswerParser, AnswerPart, CallArguments, CallBegin, Content, Reasoning
from srt.parsers.reasoning.format import ReasoningFormat
from srt.parsers.reasoning.formats import REASONING_FORMATS
from srt.parsers.registry import make_answer_parser
from srt.parsers.tool_calls.formats import TOOL_CALL_FORMATS


class ParseFunctionCallRequest(msgspec.Struct, kw_only=True):
    """`tool_call_parser`: the server's own unless it is named. Without `tools` every function name is taken."""

    text: str
    tools: list[dict[str, Any]] | None = None
    tool_call_parser: str | None = None


class ParsedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call. `tool_index` counts the calls of the text; `parameters` is JSON in a string."""

    tool_index: int
    name: str
    parameters: str


class ParseFunctionCallResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The text around the calls, and the calls."""

    normal_text: str
    calls: list[ParsedCall]


class SeparateReasoningRequest(msgspec.Struct, kw_only=True):
    """`reasoning_parser`: the server's own unless it is named."""

    text: str
    reasoning_parser: str | None = None
    return_blocks: Refused = None


class SeparateReasoningResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What the model thought, and what it said."""

    reasoning_text: str
    text: str


_FUNCTION_CALL_DECODER = msgspec.json.Decoder(ParseFunctionCallRequest)
_REASONING_DECODER = msgspec.json.Decoder(SeparateReasoningRequest)


class Parsing:
    """The two endpoints."""

    def __init__(self, client: EngineClient) -> None:
        self._model = client.model_info

    async def parse_function_call(self, request: Request) -> Response:
        """Content and calls of a text."""
        body = await read_json(request.scope, request.receive, _FUNCTION_CALL_DECODER)
        name = body.tool_call_parser or self._model.tool_call_parser
        call_format = TOOL_CALL_FORMATS.get(name or "")
        if call_format is None:
            raise _unknown("tool_call_parser", name, list(TOOL_CALL_FORMATS))
        parser = make_answer_parser(call_format, None, tools=body.tools)
        parts = await asyncio.to_thread(_parse, parser, body.text)
        return JSONResponse(msgspec.to_builtins(_to_calls(parts)))

    async def separate_reasoning(self, request: Request) -> Response:
        """Reasoning and content of a text."""
        body = await read_json(request.scope, request.receive, _REASONING_DECODER)
        refuse_fields(body)
        name = body.reasoning_parser or self._model.reasoning_parser
        reasoning = REASONING_FORMATS.get(name or "")
        if reasoning is None:
            raise _unknown("reasoning_parser", name, list(REASONING_FORMATS))
        parser = make_answer_parser(None, reasoning, starts_in_reasoning=_starts_inside(reasoning, body.text))
        parts = await asyncio.to_thread(_parse, parser, body.text)
        separated = SeparateReasoningResponse(
            reasoning_text="".join(part.text for part in parts if isinstance(part, Reasoning)),
            text="".join(part.text for part in parts if isinstance(part, Content)),
        )
        return JSONResponse(msgspec.to_builtins(separated))


def _parse(parser: AnswerParser, text: str) -> list[AnswerPart]:
    return [*parser.push(text), *parser.finish()]


def _to_calls(parts: Sequence[AnswerPart]) -> ParseFunctionCallResponse:
    names = [part.name for part in parts if isinstance(part, CallBegin)]
    arguments = [""] * len(names)
    for part in parts:
        if isinstance(part, CallArguments):
            arguments[part.index] += part.text
    return ParseFunctionCallResponse(
        normal_text="".join(part.text for part in parts if isinstance(part, Content)),
        calls=[
            ParsedCall(tool_index=index, name=name, parameters=arguments[index])
            for index, name in enumerate(names)
        ],
    )


def _starts_inside(reasoning: ReasoningFormat, text: str) -> bool:
    """The prompt is not known here; but a text that ends a reasoning before it begins one was inside."""
    before_end, end, _ = text.partition(reasoning.end)
    return reasoning.always_thinks or (bool(end) and reasoning.begin not in before_end)


def _unknown(field: str, name: str | None, names: Sequence[str]) -> InvalidRequest:
    known = ", ".join(names)
    if name is None:
        return InvalidRequest(
            f"{field} is missing, and this server has none of its own; there are {known}", param=field
        )
    return InvalidRequest(f"there is no {field} called {name[:40]}, only {known}", param=field)
