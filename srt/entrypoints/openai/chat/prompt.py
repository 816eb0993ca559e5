"""A chat request to a GenerateRequest: messages made plain for the template, fields checked and renamed.

Next on the request's path: managers/tokenizer_manager.py
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from srt.engine_client import ChatPrompt, GenerateRequest, ModelInfo
from srt.entrypoints.openai.chat.protocol import ChatMessage, ChatRequest, ToolCall
from srt.entrypoints.refused_fields import refuse_fields
from srt.entrypoints.request_identity import checked_rid, to_namespace
from srt.entrypoints.sampling_fields import to_sampling_params
from srt.errors import InvalidRequest

ROLES = ("system", "developer", "user", "assistant", "tool", "function")

_HARMLESS = {"response_format": {"type": "text"}, "modalities": ["text"], "function_call": "auto"}

_DEFAULTED_FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

# The template's own variables, which chat_template_kwargs must not replace.
_RESERVED_KWARGS = frozenset(
    {"messages", "tools", "conversation", "add_generation_prompt", "continue_final_message", "tokenize"}
)


def to_generate_request(body: ChatRequest, model: ModelInfo, *, rid: str) -> GenerateRequest:
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
    )


def _default_sampling(model: ModelInfo) -> dict[str, float | int]:
    """What the checkpoint recommends for a conversation, of what chat lets a client leave open."""
    return {
        name: model.default_sampling[name] for name in _DEFAULTED_FIELDS if name in model.default_sampling
    }


def field_names(body: ChatRequest) -> Mapping[str, str]:
    """The engine's names of fields to the client's."""
    limit = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    return {"max_new_tokens": limit, "min_new_tokens": "min_tokens", "prompt": "messages"}


def to_chat_prompt(
    messages: Sequence[ChatMessage],
    *,
    add_generation_prompt: bool | None = None,
    continue_final_message: bool | None = None,
    template_kwargs: Mapping[str, Any] | None = None,
) -> ChatPrompt:
    """Messages as a template sees them. Raises InvalidRequest that names the message."""
    if not messages:
        raise InvalidRequest("messages must not be empty", param="messages")
    if continue_final_message and add_generation_prompt:
        raise InvalidRequest(
            "continue_final_message and add_generation_prompt exclude each other",
            param="continue_final_message",
        )
    plain = [_to_plain(message, f"messages[{i}]") for i, message in enumerate(messages)]
    if continue_final_message and (plain[-1]["role"] != "assistant" or not plain[-1]["content"]):
        raise InvalidRequest(
            "continue_final_message needs a last message of the assistant's, with text in it",
            param="messages",
        )
    if reserved := sorted(_RESERVED_KWARGS & set(template_kwargs or {})):
        raise InvalidRequest(
            f"chat_template_kwargs must not set {', '.join(reserved)}", param="chat_template_kwargs"
        )
    return ChatPrompt(
        messages=plain,
        add_generation_prompt=not continue_final_message
        if add_generation_prompt is None
        else add_generation_prompt,
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
    plain: dict[str, Any] = {
        # OpenAI's newer word for the same; templates know only the older one.
        "role": "system" if role == "developer" else role,
        "content": _to_text(message, path),
    }
    for name in ("name", "reasoning_content", "tool_call_id"):
        value = getattr(message, name)
        if value is not None:
            plain[name] = value
    if message.tool_calls:  # an empty list makes some templates write an empty call
        plain["tool_calls"] = [_to_plain_call(call) for call in message.tool_calls]
    return plain


def _to_text(message: ChatMessage, path: str) -> str:
    """Content as one string, which is what templates of text models read; parts are joined by line breaks."""
    if isinstance(message.content, str):
        return message.content
    if message.content is None:
        if message.role.lower() != "assistant":
            raise InvalidRequest(f"{path}.content is missing", param=f"{path}.content")
        return ""  # an answer may consist of calls only
    texts = []
    for i, part in enumerate(message.content):
        where = f"{path}.content[{i}]"
        if part.type not in ("text", "input_text", "output_text"):
            raise InvalidRequest(f"{where}: only text is served, not {part.type[:40]!r}", param=where)
        if part.text is None:
            raise InvalidRequest(f"{where}.text is missing", param=f"{where}.text")
        texts.append(part.text)
    return "\n".join(texts)


def _to_plain_call(call: ToolCall) -> dict[str, Any]:
    """A call with its arguments as an object, since templates iterate over them; what is no JSON stays a string."""
    arguments = call.function.arguments
    if isinstance(arguments, str):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
    function = {"name": call.function.name, "arguments": {} if arguments is None else arguments}
    plain: dict[str, Any] = {"type": call.type or "function", "function": function}
    if call.id is not None:
        plain["id"] = call.id
    return plain
