"""POST /v1/chat/completions: parse, translate, generate, and answer whole or as a stream.

Next on the request's path: srt/entrypoints/openai/chat/prompt.py
"""

import time

import msgspec
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.generation_endpoint import Caller, serve_body
from srt.entrypoints.json_response import send_json
from srt.entrypoints.openai.chat.prompt import field_names, plan_chat
from srt.entrypoints.openai.chat.protocol import ChatRequest
from srt.entrypoints.openai.chat.response import to_chat_response
from srt.entrypoints.openai.chat.running import RunningChat, start_chat
from srt.entrypoints.openai.chat.stream import ChatAnswerFormat, ChatStreamFormat
from srt.entrypoints.openai.event_writer import DetailedEventWriter, TextEventWriter
from srt.entrypoints.openai.usage import StreamUsage
from srt.entrypoints.sse import EventWriter, send_events

_DECODER = msgspec.json.Decoder(ChatRequest)


class ChatCompletions:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        await serve_body(scope, receive, send, _DECODER, self._answer)

    async def _answer(self, body: ChatRequest, caller: Caller) -> None:
        created = int(time.time())
        model = body.model or self._client.model_info.served_model_name
        rid, dp_rank = f"chatcmpl-{caller.label}", caller.asked.dp_rank
        names = {**field_names(body), "dp_rank": caller.asked.field}
        with api_field_names(names):
            plan = plan_chat(body, self._client.model_info, rid=rid, dp_rank=dp_rank)
            names |= plan.field_names
            chat = await start_chat(self._client, plan)
            if body.stream:
                writer = _event_writer(body, chat, created=created, model=model)
                await send_events(caller.send, chat.generation, writer, caller.body)
                return
            choices = await chat.collect()
        response = to_chat_response(chat, choices, body, created=created, model=model)
        await send_json(caller.send, msgspec.json.encode(response))


def _event_writer(body: ChatRequest, chat: RunningChat, *, created: int, model: str) -> EventWriter:
    text_format = ChatStreamFormat(response_id=chat.generation.request_id, created=created, model=model)
    answer_format = ChatAnswerFormat(text_format, chat)
    usage = StreamUsage(
        n=chat.n,
        is_included=body.includes_usage,
        is_continuous=body.has_continuous_usage,
        num_reasoning_tokens=None if chat.plan.reasoning is None else answer_format.num_reasoning_tokens,
    )
    if chat.plan.is_plain and not chat.has_logprobs:
        return TextEventWriter(text_format, usage)
    return DetailedEventWriter(answer_format, usage)
