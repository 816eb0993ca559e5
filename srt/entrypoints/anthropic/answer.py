"""What a model said, as Anthropic's blocks, and why it stopped."""

from collections.abc import Iterable
from typing import Any

import msgspec

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.anthropic.protocol import (
    AnswerBlock,
    MessageUsage,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from srt.entrypoints.openai.chat.answer import FinishType
from srt.entrypoints.openai.chat.call_ids import CallIds
from srt.entrypoints.openai.chat.runs import Run
from srt.parsers.answer import Reasoning

CALL_ID_PREFIX = "toolu_"


def to_blocks(runs: Iterable[Run], *, shows_thinking: bool) -> list[AnswerBlock]:
    """A block a run, as in a stream."""
    call_ids = CallIds(CALL_ID_PREFIX)
    blocks: list[AnswerBlock] = []
    for run in runs:
        if run.begin.call is not None:
            call = run.begin.call
            made = call_ids.next(call.id)
            blocks.append(ToolUseBlock(id=made, name=call.name, input=_to_input(run.text)))
        elif run.begin.kind is Reasoning:
            blocks.append(ThinkingBlock(thinking=run.text if shows_thinking else ""))
        else:
            blocks.append(TextBlock(text=run.text))
    return blocks


def _to_input(arguments: str) -> dict[str, Any]:
    """The arguments as an object; none of those of a call that was cut off in the middle."""
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def stop_reason(
    finish_type: FinishType, finish: FinishReason, *, num_tokens: int, max_tokens: int
) -> StopReason:
    """Why it ended, in Anthropic's words."""
    if finish_type == "length":
        return "max_tokens" if num_tokens >= max_tokens else "model_context_window_exceeded"
    if finish_type == "tool_calls":
        return "tool_use"
    return "stop_sequence" if stop_sequence(finish) is not None else "end_turn"


def stop_sequence(finish: FinishReason) -> str | None:
    """The one that was found."""
    return finish.matched if isinstance(finish.matched, str) else None


def to_usage(chunk: GenerateChunk, *, output_tokens: int | None = None) -> MessageUsage:
    """The counts after this chunk. What was found in the cache is no part of `input_tokens`, as Anthropic counts."""
    return MessageUsage(
        input_tokens=chunk.prompt_tokens - chunk.cached_tokens,
        cache_read_input_tokens=chunk.cached_tokens,
        output_tokens=chunk.completion_tokens if output_tokens is None else output_tokens,
    )
