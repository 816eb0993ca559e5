"""POST /v1/completions: parse, translate, generate, and answer whole or as a stream."""

import time

import msgspec
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient
from srt.entrypoints.choices import collect_choices
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.generation_endpoint import Caller, serve_body
from srt.entrypoints.json_response import send_json
from srt.entrypoints.openai.completions.prompt import field_names, to_generate_request
from srt.entrypoints.openai.completions.protocol import CompletionRequest
from srt.entrypoints.openai.completions.response import to_completion_response
from srt.entrypoints.openai.completions.running import RunningCompletion, start_completion
from srt.entrypoints.openai.completions.stream import CompletionLogprobFormat, CompletionStreamFormat
from srt.entrypoints.openai.event_writer import DetailedEventWriter, TextEventWriter
from srt.entrypoints.openai.usage import StreamUsage
from srt.entrypoints.prompt_rows import check_num_choices
from srt.entrypoints.sse import EventWriter, send_events

_DECODER = msgspec.json.Decoder(CompletionRequest)


class Completions:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        await serve_body(scope, receive, send, _DECODER, self._answer)

    async def _answer(self, body: CompletionRequest, caller: Caller) -> None:
        created = int(time.time())
        model = body.model or self._client.model_info.served_model_name
        with api_field_names({**field_names(body), "dp_rank": caller.asked.field}):
            request = to_generate_request(body, rid=f"cmpl-{caller.label}", dp_rank=caller.asked.dp_rank)
            check_num_choices(request)
            completion = await start_completion(self._client, request, echo=bool(body.echo))
            if body.stream:
                writer = _event_writer(body, completion, created=created, model=model)
                await send_events(caller.send, completion.generation, writer, caller.body)
                return
            choices = await collect_choices(completion.generation, completion.num_choices)
        response = to_completion_response(completion, choices, body, created=created, model=model)
        await send_json(caller.send, msgspec.json.encode(response))


def _event_writer(
    body: CompletionRequest, completion: RunningCompletion, *, created: int, model: str
) -> EventWriter:
    text_format = CompletionStreamFormat(completion=completion, created=created, model=model)
    usage = StreamUsage(
        n=completion.n, is_included=body.includes_usage, is_continuous=body.has_continuous_usage
    )
    if completion.has_logprobs:
        return DetailedEventWriter(CompletionLogprobFormat(text_format), usage)
    return TextEventWriter(text_format, usage)
