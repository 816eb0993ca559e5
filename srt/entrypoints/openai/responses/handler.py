"""POST /v1/responses: a chat in OpenAI's newer words.

Next on the request's path: srt/entrypoints/openai/chat/prompt.py
"""

import time

import msgspec
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.generation_endpoint import Caller, serve_body
from srt.entrypoints.json_response import send_json
from srt.entrypoints.openai.chat.prompt import plan_chat
from srt.entrypoints.openai.chat.running import RunningChat, start_chat
from srt.entrypoints.openai.chat.runs import AnswerRuns
from srt.entrypoints.openai.responses.answer import Response, ended, new_response, to_items
from srt.entrypoints.openai.responses.logprobs import TextLogprobs
from srt.entrypoints.openai.responses.prompt import FIELD_NAMES, to_chat_request
from srt.entrypoints.openai.responses.protocol import ResponsesRequest
from srt.entrypoints.openai.responses.stream import ResponseEventWriter
from srt.entrypoints.sse import send_events
from srt.errors import InvalidRequest, RequestError

_DECODER = msgspec.json.Decoder(ResponsesRequest)


class Responses:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        await serve_body(scope, receive, send, _DECODER, self._answer)

    async def _answer(self, body: ResponsesRequest, caller: Caller) -> None:
        created_at = int(time.time())
        model = self._client.model_info
        with api_field_names({**FIELD_NAMES, "dp_rank": caller.asked.field}):
            plan = plan_chat(
                to_chat_request(body), model, rid=f"resp_{caller.label}", dp_rank=caller.asked.dp_rank
            )
            if body.wants_logprobs and not plan.answers.is_plain:
                # Which of them are text and which are thoughts and calls, nothing here could say.
                raise InvalidRequest(
                    "log-probabilities are told of plain text only: not with tools, nor of a model that reasons",
                    param="top_logprobs" if body.top_logprobs else "include",
                )
            chat = await start_chat(self._client, plan)
            (sampling,) = plan.request.sampling
            response = new_response(
                body,
                sampling,
                response_id=chat.generation.request_id,
                created_at=created_at,
                model=body.model or model.served_model_name,
            )
            if body.stream:
                await _stream(caller, chat, response)
                return
            (choice,) = await chat.collect()
        runs = AnswerRuns(chat.reader(), is_plain=chat.plan.is_plain)
        logprobs = TextLogprobs.of(chat)
        if logprobs is not None:
            logprobs.add(choice.merged)
        items = to_items(runs.read_whole(choice.merged), choice.finish, logprobs.all if logprobs else ())
        whole = ended(
            response,
            items,
            choice.finish,
            choice.last,
            num_reasoning_tokens=runs.num_reasoning_tokens,
            completed_at=int(time.time()),
        )
        await send_json(caller.send, msgspec.json.encode(whole))


async def _stream(caller: Caller, chat: RunningChat, response: Response) -> None:
    """Send the events. What goes wrong after the first has an event of its own here."""
    writer = ResponseEventWriter(chat, response)
    try:
        await send_events(caller.send, chat.generation, writer, caller.body)
    except RequestError as error:
        if not writer.has_begun:
            raise
        await caller.send({"type": "http.response.body", "body": writer.failure(error)})
