"""A response, as OpenAI spells it, and the items that it is made of."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.chat.call_ids import CallIds
from srt.entrypoints.openai.chat.runs import Run
from srt.entrypoints.openai.logprobs import TokenLogprob
from srt.entrypoints.openai.responses.protocol import ResponsesRequest
from srt.parsers.answer import CallBegin, Reasoning
from srt.sampling.params import SamplingParams

Status = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]


class OutputText(msgspec.Struct, frozen=True, tag="output_text", kw_only=True):
    """The text of a message."""

    text: str
    annotations: list[Any] = []
    logprobs: list[TokenLogprob] = []


class ReasoningText(msgspec.Struct, frozen=True, tag="reasoning_text", kw_only=True):
    """The text of thoughts."""

    text: str


class MessageItem(msgspec.Struct, frozen=True, tag="message", kw_only=True):
    """What the model said."""

    id: str
    role: Literal["assistant"] = "assistant"
    status: Status
    content: list[OutputText]


class ReasoningItem(msgspec.Struct, frozen=True, tag="reasoning", kw_only=True):
    """What it thought aloud, whole: a client that keeps the conversation sends it back like this."""

    id: str
    status: Status
    summary: list[Any] = []
    content: list[ReasoningText]
    encrypted_content: str | None = None


class CallItem(msgspec.Struct, frozen=True, tag="function_call", kw_only=True):
    """A call that the client is to run. `call_id` is what the result refers to."""

    id: str
    status: Status
    call_id: str
    name: str
    arguments: str


OutputItem = MessageItem | ReasoningItem | CallItem


class InputTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What part of the prompt was found in the cache."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What part of the answer was reasoning."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseErrorFields(msgspec.Struct, frozen=True, kw_only=True):
    """Why a response that had begun failed."""

    code: str
    message: str


class IncompleteDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What cut it off."""

    reason: Literal["max_output_tokens"]


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The whole object: what was asked for, and what came of it. Nothing is stored."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status
    error: ResponseErrorFields | None = None
    incomplete_details: IncompleteDetails | None = None
    model: str
    output: list[OutputItem]
    usage: ResponseUsage | None = None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    reasoning: dict[str, Any]
    temperature: float
    text: dict[str, Any]
    tool_choice: Any
    tools: list[dict[str, Any]]
    top_p: float
    background: bool = False
    max_tool_calls: None = None
    previous_response_id: None = None
    service_tier: str = "default"
    store: bool = False
    top_logprobs: int
    truncation: Literal["disabled"] = "disabled"


def new_response(
    body: ResponsesRequest, sampling: SamplingParams, *, response_id: str, created_at: int, model: str
) -> Response:
    """One that has just begun: what was asked for, defaults filled in."""
    form = body.text.format if body.text is not None else None
    choice = "auto" if body.tool_choice is None else body.tool_choice
    return Response(
        id=response_id,
        created_at=created_at,
        status="in_progress",
        model=model,
        output=[],
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        metadata=body.metadata or {},
        parallel_tool_calls=body.parallel_tool_calls is not False,
        reasoning={"effort": None if body.reasoning is None else body.reasoning.effort, "summary": None},
        temperature=sampling.temperature,
        text={"format": {"type": "text"} if form is None else _given(form)},
        tool_choice=choice if isinstance(choice, str) else _given(choice),
        tools=[
            {
                "type": tool.type,
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": bool(tool.strict),
            }
            for tool in body.tools or ()
        ],
        top_p=sampling.top_p,
        top_logprobs=body.top_logprobs or 0,
    )


def _given(fields: msgspec.Struct) -> dict[str, Any]:
    """Those that were."""
    return {name: value for name, value in msgspec.to_builtins(fields).items() if value is not None}


def ended(
    response: Response,
    items: list[OutputItem],
    finish: FinishReason,
    last: GenerateChunk,
    *,
    num_reasoning_tokens: int,
    completed_at: int,
) -> Response:
    """The response when its generation has ended."""
    status = end_status(finish)
    return msgspec.structs.replace(
        response,
        status=status,
        completed_at=completed_at if status == "completed" else None,
        incomplete_details=IncompleteDetails(reason="max_output_tokens") if status == "incomplete" else None,
        output=items,
        usage=ResponseUsage(
            input_tokens=last.prompt_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=last.cached_tokens),
            output_tokens=last.completion_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=num_reasoning_tokens),
            total_tokens=last.prompt_tokens + last.completion_tokens,
        ),
    )


def end_status(finish: FinishReason) -> Status:
    """What an ending is called here."""
    match finish.type:
        case "stop":
            return "completed"
        case "length":
            return "incomplete"
        case "abort":
            return "cancelled"


class ItemFactory:
    """Makes the items of one response; each is made anew when there is more of it, under the same ids."""

    def __init__(self) -> None:
        self._call_ids = CallIds()

    def begin(self, kind: type[Any], call: CallBegin | None) -> OutputItem:
        """One with nothing in it yet."""
        if call is not None:
            return CallItem(
                id=_new_id("fc_"),
                status="in_progress",
                call_id=self._call_ids.next(call.id),
                name=call.name,
                arguments="",
            )
        if kind is Reasoning:
            return ReasoningItem(id=_new_id("rs_"), status="in_progress", content=[])
        return MessageItem(id=_new_id("msg_"), status="in_progress", content=[])


def _new_id(prefix: str) -> str:
    return f"{prefix}{uuid.uuid4().hex}"


def with_text(
    item: OutputItem, text: str, status: Status, logprobs: Sequence[TokenLogprob] = ()
) -> OutputItem:
    """The item when all of it is there."""
    match item:
        case CallItem():
            return msgspec.structs.replace(item, arguments=text, status=status)
        case ReasoningItem():
            return msgspec.structs.replace(item, content=[ReasoningText(text=text)], status=status)
        case MessageItem():
            content = [OutputText(text=text, logprobs=list(logprobs))]
            return msgspec.structs.replace(item, content=content, status=status)


def to_items(runs: Iterable[Run], finish: FinishReason, logprobs: Sequence[TokenLogprob]) -> list[OutputItem]:
    """An item a run, as in a stream; the last is as complete as the whole. `logprobs` are those of a lone text."""
    factory = ItemFactory()
    whole = list(runs)
    return [
        with_text(
            factory.begin(run.begin.kind, run.begin.call),
            run.text,
            "completed" if run is not whole[-1] else item_status(finish),
            logprobs,
        )
        for run in whole
    ]


def item_status(finish: FinishReason) -> Status:
    """Of the item that was being made when it ended."""
    return "completed" if finish.type == "stop" else "incomplete"
