"""POST /v1/messages and /v1/messages/count_tokens: Anthropic's words for a chat.

Next on the request's path: srt/entrypoints/openai/chat/prompt.py
"""

from dataclasses import replace

import msgspec
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient
from srt.entrypoints.anthropic.answer import stop_reason, stop_sequence, to_blocks, to_usage
from srt.entrypoints.anthropic.prompt import FIELD_NAMES, to_chat_request
from srt.entrypoints.anthropic.protocol import (
    CountTokensRequest,
    CountTokensResponse,
    MessageResponse,
    MessagesRequest,
)
from srt.entrypoints.anthropic.stream import MessageEventWriter
from srt.entrypoints.disconnect import until_disconnect
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.generation_endpoint import Caller, serve_body
from srt.entrypoints.json_response import send_json
from srt.entrypoints.openai.chat.prompt import ChatPlan, plan_chat
from srt.entrypoints.openai.chat.running import RunningChat, start_chat
from srt.entrypoints.openai.chat.runs import AnswerRuns
from srt.entrypoints.request_body import read_json
from srt.entrypoints.sse import send_events
from srt.errors import ContextLengthExceeded

_MESSAGES_DECODER = msgspec.json.Decoder(MessagesRequest)
_COUNT_DECODER = msgspec.json.Decoder(CountTokensRequest)


class Messages:
    """POST /v1/messages, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        await serve_body(scope, receive, send, _MESSAGES_DECODER, self._answer)

    async def _answer(self, body: MessagesRequest, caller: Caller) -> None:
        shows_thinking = body.thinking is None or body.thinking.display != "omitted"
        with api_field_names({**FIELD_NAMES, "dp_rank": caller.asked.field}):
            plan = plan_chat(
                to_chat_request(body),
                self._client.model_info,
                rid=f"msg_{caller.label}",
                dp_rank=caller.asked.dp_rank,
            )
            chat = await _start(self._client, plan)
            if body.stream:
                writer = MessageEventWriter(
                    chat, model=body.model, max_tokens=body.max_tokens, shows_thinking=shows_thinking
                )
                await send_events(caller.send, chat.generation, writer, caller.body)
                return
            (choice,) = await chat.collect()
        runs = AnswerRuns(chat.reader(), is_plain=chat.plan.is_plain)
        whole = runs.read_whole(choice.merged)
        response = MessageResponse(
            id=chat.generation.request_id,
            model=body.model,
            content=to_blocks(whole, shows_thinking=shows_thinking),
            stop_reason=stop_reason(
                runs.finish_type(choice.finish),
                choice.finish,
                num_tokens=choice.last.completion_tokens,
                max_tokens=body.max_tokens,
            ),
            stop_sequence=stop_sequence(choice.finish),
            usage=to_usage(choice.last),
        )
        await send_json(caller.send, msgspec.json.encode(response))


class CountTokens:
    """POST /v1/messages/count_tokens, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        body = await read_json(scope, receive, _COUNT_DECODER)
        await until_disconnect(receive, self._answer(body, send))

    async def _answer(self, body: CountTokensRequest, send: Send) -> None:
        with api_field_names(FIELD_NAMES):
            plan = plan_chat(to_chat_request(body), self._client.model_info, rid="none")
            (prompt,) = plan.request.prompts
            token_ids = await self._client.tokenize(prompt)
        await send_json(send, msgspec.json.encode(CountTokensResponse(input_tokens=len(token_ids))))


async def _start(client: EngineClient, plan: ChatPlan) -> RunningChat:
    """Dispatch it, with as much room for the answer as there is, where `max_tokens` is more than that.

    Anthropic's clients ask for an answer as long as their model can give, whatever the prompt's length; it then ends
    with the context.
    """
    try:
        return await start_chat(client, plan)
    except ContextLengthExceeded:
        request = plan.request
        (sampling,) = request.sampling
        unlimited = msgspec.structs.replace(sampling, max_new_tokens=None)
        longest = msgspec.structs.replace(request, sampling=(unlimited,))
        return await start_chat(client, replace(plan, request=longest))
