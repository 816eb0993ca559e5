"""POST or PUT /generate, SGLang's native endpoint: parse, translate, generate, and answer whole or as a stream."""

from typing import Any

import msgspec
import orjson
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient
from srt.entrypoints.choices import Choice, collect_choices
from srt.entrypoints.disconnect import until_disconnect
from srt.entrypoints.dp_rank import AskedRank, asked_dp_rank
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.generate.metadata import MetaInfo
from srt.entrypoints.generate.prompt import field_names, is_batch, to_generate_request
from srt.entrypoints.generate.protocol import NativeRequest
from srt.entrypoints.generate.stream import NativeEventWriter
from srt.entrypoints.json_response import send_json
from srt.entrypoints.middleware import request_label
from srt.entrypoints.prompt_rows import check_num_choices
from srt.entrypoints.request_body import read_json
from srt.entrypoints.sse import send_events

_DECODER = msgspec.json.Decoder(NativeRequest)


class Generate:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        body = await read_json(scope, receive, _DECODER)
        await until_disconnect(
            receive, self._answer(body, asked_dp_rank(scope, body), request_label(scope), send)
        )

    async def _answer(self, body: NativeRequest, asked: AskedRank, label: str, send: Send) -> None:
        meta = MetaInfo()
        with api_field_names({**field_names(body), "dp_rank": asked.field}):
            request = to_generate_request(body, rid=label, dp_rank=asked.dp_rank)
            check_num_choices(request)
            generation = await self._client.generate(request)
            rid = generation.request_id
            num_choices = len(request.prompts) * request.sampling[0].n
            is_list = is_batch(body) or num_choices > 1
            if body.stream:
                await send_events(send, generation, NativeEventWriter(rid=rid, is_list=is_list, meta=meta))
                return
            choices = await collect_choices(generation, num_choices)
        answers = [_to_answer(choice, meta, rid) for choice in choices]
        await send_json(send, orjson.dumps(answers if is_list else answers[0]))


def _to_answer(choice: Choice, meta: MetaInfo, rid: str) -> dict[str, Any]:
    return {
        "text": choice.text,
        "output_ids": choice.token_ids,
        "meta_info": meta.describe(choice.last, rid),
    }
