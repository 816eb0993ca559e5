"""POST /v1/completions: parse, translate, generate, and answer whole or as a stream."""

import time

import msgspec
from starlette.types import Receive, Scope, Send

from srt.engine_client import ChatPrompt, EngineClient, GenerateRequest, TextPrompt, TokenPrompt
from srt.entrypoints.choices import Choice, collect_choices
from srt.entrypoints.disconnect import until_disconnect
from srt.entrypoints.dp_rank import AskedRank, asked_dp_rank
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.json_response import send_json
from srt.entrypoints.middleware import request_label
from srt.entrypoints.openai.completions.prompt import FIELD_NAMES, to_generate_request
from srt.entrypoints.openai.completions.protocol import (
    CompletionChoice,
    CompletionRequest,
    CompletionResponse,
)
from srt.entrypoints.openai.completions.stream import CompletionStreamFormat
from srt.entrypoints.openai.event_writer import OpenAIEventWriter
from srt.entrypoints.openai.usage import count_usage
from srt.entrypoints.prompt_rows import check_num_choices
from srt.entrypoints.request_body import read_json
from srt.entrypoints.sse import send_events

_DECODER = msgspec.json.Decoder(CompletionRequest)


class Completions:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        body = await read_json(scope, receive, _DECODER)
        await until_disconnect(
            receive, self._answer(body, asked_dp_rank(scope, body), request_label(scope), send)
        )

    async def _answer(self, body: CompletionRequest, asked: AskedRank, label: str, send: Send) -> None:
        created = int(time.time())
        model = body.model or self._client.model_info.served_model_name
        with api_field_names({**FIELD_NAMES, "dp_rank": asked.field}):
            request = to_generate_request(body, rid=f"cmpl-{label}", dp_rank=asked.dp_rank)
            check_num_choices(request)
            echoes = await self._echoes(request) if body.echo else []
            generation = await self._client.generate(request)
            n = request.sampling[0].n
            if body.stream:
                writer = OpenAIEventWriter(
                    CompletionStreamFormat(
                        response_id=generation.request_id, created=created, model=model, n=n, echoes=echoes
                    ),
                    n=n,
                    includes_usage=body.includes_usage,
                    has_continuous_usage=body.has_continuous_usage,
                )
                await send_events(send, generation, writer)
                return
            choices = await collect_choices(generation, len(request.prompts) * n)
        response = CompletionResponse(
            id=generation.request_id,
            created=created,
            model=model,
            choices=[_to_completion_choice(c, echoes[c.last.index // n] if echoes else "") for c in choices],
            usage=count_usage((choice.last for choice in choices), n=n),
        )
        await send_json(send, msgspec.json.encode(response))

    async def _echoes(self, request: GenerateRequest) -> list[str]:
        """The prompts as text."""
        echoes = []
        for prompt, sampling in zip(request.prompts, request.sampling, strict=True):
            match prompt:
                case TextPrompt(text):
                    echoes.append(text)
                case TokenPrompt(token_ids):
                    skip = sampling.skip_special_tokens
                    echoes.append(await self._client.detokenize(token_ids, skip_special_tokens=skip))
                case ChatPrompt():
                    raise AssertionError("a completion has no chat prompt")
        return echoes


def _to_completion_choice(choice: Choice, echo: str) -> CompletionChoice:
    return CompletionChoice(
        index=choice.last.index,
        text=echo + choice.text,
        finish_reason=choice.finish.type,
        matched_stop=choice.finish.matched,
    )
