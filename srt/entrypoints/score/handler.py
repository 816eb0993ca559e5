"""POST /v1/score: how likely each label is behind query and item, for every item.

Next on the request's path: managers/tokenizer_manager.py
"""

import math

import msgspec
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient
from srt.entrypoints.choices import Choice, collect_choices
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.generation_endpoint import Caller, serve_body
from srt.entrypoints.json_response import send_json
from srt.entrypoints.label_probabilities import label_logprobs, softmax
from srt.entrypoints.openai.usage import count_usage
from srt.entrypoints.score.prompt import FIELD_NAMES, to_generate_request
from srt.entrypoints.score.protocol import ScoreRequest, ScoreResponse

_DECODER = msgspec.json.Decoder(ScoreRequest)


class Score:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        await serve_body(scope, receive, send, _DECODER, self._answer)

    async def _answer(self, body: ScoreRequest, caller: Caller) -> None:
        model = self._client.model_info
        with api_field_names({**FIELD_NAMES, "dp_rank": caller.asked.field}):
            request = to_generate_request(
                body, vocab_size=model.vocab_size, rid=f"score-{caller.label}", dp_rank=caller.asked.dp_rank
            )
            choices = await collect_choices(await self._client.generate(request), len(request.prompts))
        response = ScoreResponse(
            model=body.model or model.served_model_name,
            scores=[_scores(choice, body) for choice in choices],
            token_logprobs=[label_logprobs(choice) for choice in choices]
            if body.return_token_logprobs
            else msgspec.UNSET,
            usage=count_usage((choice.last for choice in choices), n=1),
        )
        await send_json(caller.send, msgspec.json.encode(response))


def _scores(choice: Choice, body: ScoreRequest) -> list[float]:
    logprobs = label_logprobs(choice)
    if body.apply_softmax:
        return softmax(logprobs, body.temperature or 1.0)
    return [math.exp(logprob) for logprob in logprobs]
