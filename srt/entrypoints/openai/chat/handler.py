"""POST /v1/chat/completions: parse, translate, generate, and answer whole or as a stream.

Next on the request's path: srt/entrypoints/openai/chat/prompt.py
"""

import time

import msgspec
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient
from srt.entrypoints.choices import Choice, collect_choices
from srt.entrypoints.disconnect import until_disconnect
from srt.entrypoints.dp_rank import AskedRank, asked_dp_rank
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.json_response import send_json
from srt.entrypoints.middleware import request_label
from srt.entrypoints.openai.chat.prompt import field_names, to_generate_request
from srt.entrypoints.openai.chat.protocol import AnswerMessage, ChatChoice, ChatRequest, ChatResponse
from srt.entrypoints.openai.chat.stream import ChatStreamFormat
from srt.entrypoints.openai.event_writer import OpenAIEventWriter
from srt.entrypoints.openai.usage import count_usage
from srt.entrypoints.request_body import read_json
from srt.entrypoints.sse import send_events

_DECODER = msgspec.json.Decoder(ChatRequest)


class ChatCompletions:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        body = await read_json(scope, receive, _DECODER)
        await until_disconnect(
            receive, self._answer(body, asked_dp_rank(scope, body), request_label(scope), send)
        )

    async def _answer(self, body: ChatRequest, asked: AskedRank, label: str, send: Send) -> None:
        created = int(time.time())
        model = body.model or self._client.model_info.served_model_name
        with api_field_names({**field_names(body), "dp_rank": asked.field}):
            request = to_generate_request(
                body, self._client.model_info, rid=f"chatcmpl-{label}", dp_rank=asked.dp_rank
            )
            generation = await self._client.generate(request)
            n = request.sampling[0].n
            if body.stream:
                writer = OpenAIEventWriter(
                    ChatStreamFormat(response_id=generation.request_id, created=created, model=model),
                    n=n,
                    includes_usage=body.includes_usage,
                    has_continuous_usage=body.has_continuous_usage,
                )
                await send_events(send, generation, writer)
                return
            choices = await collect_choices(generation, n)
        response = ChatResponse(
            id=generation.request_id,
            created=created,
            model=model,
            choices=[_to_chat_choice(choice) for choice in choices],
            usage=count_usage((choice.last for choice in choices), n=n),
        )
        await send_json(send, msgspec.json.encode(response))


def _to_chat_choice(choice: Choice) -> ChatChoice:
    return ChatChoice(
        index=choice.last.index,
        message=AnswerMessage(content=choice.text),
        finish_reason=choice.finish.type,
        matched_stop=choice.finish.matched,
    )
