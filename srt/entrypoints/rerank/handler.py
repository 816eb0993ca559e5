"""POST or PUT /v1/rerank: documents, best first.

Next on the request's path: managers/tokenizer_manager.py
"""

import msgspec
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient
from srt.entrypoints.choices import Choice, collect_choices
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.generation_endpoint import Caller, serve_body
from srt.entrypoints.json_response import send_json
from srt.entrypoints.label_probabilities import label_logprobs, softmax
from srt.entrypoints.rerank.prompt import FIELD_NAMES, YesNo, to_generate_request, yes_and_no
from srt.entrypoints.rerank.protocol import RankedDocument, RerankMeta, RerankRequest

_DECODER = msgspec.json.Decoder(RerankRequest)


class Rerank:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._labels: YesNo | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        await serve_body(scope, receive, send, _DECODER, self._answer)

    async def _answer(self, body: RerankRequest, caller: Caller) -> None:
        if self._labels is None:
            self._labels = await yes_and_no(self._client)
        with api_field_names({**FIELD_NAMES, "dp_rank": caller.asked.field}):
            request = to_generate_request(
                body,
                self._client.model_info,
                self._labels,
                rid=f"rerank-{caller.label}",
                dp_rank=caller.asked.dp_rank,
            )
            generation = await self._client.generate(request)
            choices = await collect_choices(generation, len(request.prompts))
        ranked = [_to_document(choice, body, generation.request_id) for choice in choices]
        # Equal scores keep the order of the request.
        ranked.sort(key=lambda document: -document.score)
        await send_json(caller.send, msgspec.json.encode(ranked[: body.top_n]))


def _to_document(choice: Choice, body: RerankRequest, rid: str) -> RankedDocument:
    last = choice.last
    return RankedDocument(
        score=softmax(label_logprobs(choice))[0],
        index=last.index,
        document=msgspec.UNSET if body.return_documents is False else body.documents[last.index],
        meta_info=RerankMeta(
            id=rid,
            prompt_tokens=last.prompt_tokens,
            completion_tokens=last.completion_tokens,
            cached_tokens=last.cached_tokens,
        ),
    )
