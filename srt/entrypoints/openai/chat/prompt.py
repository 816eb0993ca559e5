"""A chat request to a GenerateRequest: messages made plain for the template, fields checked and renamed.

Next on the request's path: managers/tokenizer_manager.py
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from srt.engine_client import ChatPrompt, GenerateRequest, ModelInfo
from srt.entrypoints.openai.chat.protocol import ChatMessage, ChatRequest, ContentPart
from srt.entrypoints.refused_fields import refuse_fields
from srt.entrypoints.request_identity import checked_rid, to_namespace
from srt.entrypoints.sampling_fields import to_sampling_params
from srt.errors import InvalidRequest

TEXT_PARTS = ("text", "input_text", "output_text")
ROLES = ("system", "developer", "user", "assistant", "tool", "function")

_HARMLESS = {"response_format": {"type": "text"}, "modalities": ["text"], "function_call": "auto"}

_DEFAULTED_FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def to_generate_request(
    body: ChatRequest, model: ModelInfo, *, rid: str, dp_rank: int | None = None
) -> GenerateRequest:
    """Check what types cannot say, and translate. Raises InvalidRequest."""
    refuse_fields(body, harmless=_HARMLESS)
    _check_tools(body)
    limit = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    if limit is not None and limit < 1:
        raise InvalidRequest(f"max_new_tokens must be at least 1, got {limit}", param="max_new_tokens")
    return GenerateRequest(
        prompts=[
            to_chat_prompt(
                body.messages,
                add_generation_prompt=body.add_generation_prompt,
                continue_final_message=body.continue_final_message,
                template_kwargs=_template_kwargs(body),
            )
        ],
        sampling=[
            to_sampling_params(
                body,
                min_new_tokens=body.min_tokens,
                max_new_tokens=limit,
                defaults=_default_sampling(model),
            )
        ],
        stream=bool(body.stream),
        rid=checked_rid(body.rid, made=rid),
        namespace=to_namespace(body.cache_salt, body.extra_key),
        priority=body.priority,
        timeout_s=body.timeout_s,
        dp_rank=dp_rank,
    )


def _default_sampling(model: ModelInfo) -> dict[str, float | int]:
    """What the checkpoint recommends for a conversation, of what chat lets a client leave open."""
    return {
        name: model.default_sampling[name] for name in _DEFAULTED_FIELDS if name in model.default_sampling
    }


def field_names(body: ChatRequest) -> Mapping[str, str]:
    """The engine's names of fields to the client's."""
    limit = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    return {"max_new_tokens": limit, "max_tokens": limit, "min_new_tokens": "min_tokens"}


def to_chat_prompt(
    messages: Sequence[ChatMessage],
    *,
    add_generation_prompt: bool | None = None,
    continue_final_message: bool | None = None,
    template_kwargs: Mapping[str, Any] | None = None,
) -> ChatPrompt:
    """Messages for the template, which checks what only it can know. Raises InvalidRequest that names the message."""
    if add_generation_prompt is None:
        add_generation_prompt = not continue_final_message
    return ChatPrompt(
        messages=[_to_plain(message, f"messages[{i}]") for i, message in enumerate(messages)],
        add_generation_prompt=add_generation_prompt,
        continue_final_message=bool(continue_final_message),
        template_kwargs=template_kwargs or {},
    )


def _check_tools(body: ChatRequest) -> None:
    # With "none" the tools are only there because the client always sends them: nothing may come of them.
    if body.tools and body.tool_choice != "none":
        raise InvalidRequest("tools is not supported by this server", param="tools")
    if body.tool_choice not in (None, "none", "auto"):
        raise InvalidRequest("tool_choice is not supported by this server", param="tool_choice")


def _template_kwargs(body: ChatRequest) -> Mapping[str, Any]:
    """What the template gets beside the messages. Reasoning models' templates read reasoning_effort."""
    kwargs = dict(body.chat_template_kwargs or {})
    if body.reasoning_effort is not None:
        kwargs.setdefault("reasoning_effort", body.reasoning_effort)
    return kwargs


def _to_plain(message: ChatMessage, path: str) -> dict[str, Any]:
    role = message.role.lower()
    if role not in ROLES:
        raise InvalidRequest(f"{path}.role: there is no role {role[:40]!r}", param=f"{path}.role")
    if message.content is None and role != "assistant":
        raise InvalidRequest(f"{path}.content is missing", param=f"{path}.content")
    plain: dict[str, Any] = msgspec.to_builtins(message)
    # OpenAI's newer word for the same; templates know only the older one.
    plain["role"] = "system" if role == "developer" else role
    if isinstance(message.content, list):
        plain["content"] = [
            {"type": "text", "text": _part_text(part, f"{path}.content[{i}]")}
            for i, part in enumerate(message.content)
        ]
    return plain


def _part_text(part: ContentPart, path: str) -> str:
    if part.type not in TEXT_PARTS:
        raise InvalidRequest(f"{path}: only text is served, not {part.type[:40]!r}", param=path)
    if part.text is None:
        raise InvalidRequest(f"{path}.text is missing", param=f"{path}.text")
    return part.text
