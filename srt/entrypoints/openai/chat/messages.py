"""Messages as a client writes them, made plain for the template."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from srt.engine_client import ChatPrompt
from srt.entrypoints.openai.chat.protocol import ChatMessage, ContentPart
from srt.errors import InvalidRequest

TEXT_PARTS = ("text", "input_text", "output_text")
PLAIN_ROLES = frozenset({"system", "user", "assistant"})
ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def to_chat_prompt(
    messages: Sequence[ChatMessage],
    *,
    tools: list[dict[str, Any]] | None = None,
    add_generation_prompt: bool | None = None,
    continue_final_message: bool | None = None,
    template_kwargs: Mapping[str, Any] | None = None,
) -> ChatPrompt:
    """Messages for the template, which checks what only it can know. Raises InvalidRequest that names the message."""
    if add_generation_prompt is None:
        add_generation_prompt = not continue_final_message
    return ChatPrompt(
        messages=[
            _as_it_is(message) or _to_plain(message, f"messages[{i}]") for i, message in enumerate(messages)
        ],
        tools=tools,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=bool(continue_final_message),
        template_kwargs=template_kwargs or {},
    )


def _as_it_is(message: ChatMessage) -> dict[str, Any] | None:
    """A message of a role and a text, as nearly all are; None for any other. Done on the event loop, so in a hurry."""
    if message.role not in PLAIN_ROLES or message.content.__class__ is not str:
        return None
    plain: dict[str, Any] = msgspec.to_builtins(message)
    return plain if len(plain) == 2 else None


def _to_plain(message: ChatMessage, path: str) -> dict[str, Any]:
    role = message.role.lower()
    if role not in ROLES:
        raise InvalidRequest(f"{path}.role: there is no role {role[:40]!r}", param=f"{path}.role")
    if message.content is None and role != "assistant":
        raise InvalidRequest(f"{path}.content is missing", param=f"{path}.content")
    for field in ("audio", "function_call"):
        if getattr(message, field):
            raise InvalidRequest(f"{path}.{field} is not supported by this server", param=f"{path}.{field}")
    plain: dict[str, Any] = msgspec.to_builtins(message)
    # OpenAI's newer word for the same; templates know only the older one.
    plain["role"] = "system" if role == "developer" else role
    if isinstance(message.content, list):
        plain["content"] = [
            {"type": "text", "text": _part_text(part, f"{path}.content[{i}]")}
            for i, part in enumerate(message.content)
        ]
    # vLLM's name of it, which its clients send back.
    reasoning = plain.pop("reasoning", None)
    if reasoning is not None:
        plain.setdefault("reasoning_content", reasoning)
    refusal = plain.pop("refusal", None)
    if refusal is not None:
        plain.setdefault("content", refusal)
    return plain


def _part_text(part: ContentPart, path: str) -> str:
    field = "refusal" if part.type == "refusal" else "text"
    if field == "text" and part.type not in TEXT_PARTS:
        raise InvalidRequest(f"{path}: only text is served, not {part.type[:40]!r}", param=path)
    text: str | None = getattr(part, field)
    if text is None:
        raise InvalidRequest(f"{path}.{field} is missing", param=f"{path}.{field}")
    return text
