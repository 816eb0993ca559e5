"""POST or PUT /generate, SGLang's native endpoint: parse, translate, generate, and answer whole or as a stream."""

from typing import Any

import msgspec
import orjson
from starlette.types import Receive, Scope, Send

from srt.engine_client import EngineClient, Logprobs
from srt.entrypoints.choices import Choice, collect_choices
from srt.entrypoints.field_names import api_field_names
from srt.entrypoints.generate.answer_facts import AnswerFacts
from srt.entrypoints.generate.logprobs import describe_logprobs
from srt.entrypoints.generate.metadata import MetaInfo
from srt.entrypoints.generate.prompt import field_names, is_batch, to_generate_request
from srt.entrypoints.generate.protocol import NativeRequest
from srt.entrypoints.generate.stream import NativeEventWriter
from srt.entrypoints.generation_endpoint import Caller, serve_body
from srt.entrypoints.json_response import send_json
from srt.entrypoints.prompt_rows import check_num_choices
from srt.entrypoints.sse import send_events

_DECODER = msgspec.json.Decoder(NativeRequest)


class Generate:
    """The endpoint, as an ASGI app."""

    def __init__(self, client: EngineClient, *, is_incremental: bool) -> None:
        self._client = client
        self._is_incremental = is_incremental

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, for as long as its client stays."""
        await serve_body(scope, receive, send, _DECODER, self._answer)

    async def _answer(self, body: NativeRequest, caller: Caller) -> None:
        meta = MetaInfo()
        with api_field_names({**field_names(body), "dp_rank": caller.asked.field}):
            request = to_generate_request(body, rid=caller.label, dp_rank=caller.asked.dp_rank)
            check_num_choices(request)
            generation = await self._client.generate(request)
            facts = AnswerFacts.of(body, request, generation, self._client)
            num_choices = len(request.prompts) * facts.num_samples
            is_list = is_batch(body) or num_choices > 1
            if body.stream:
                writer = NativeEventWriter(
                    facts, is_list=is_list, is_incremental=self._is_incremental, meta=meta
                )
                await send_events(caller.send, generation, writer, caller.body)
                return
            choices = await collect_choices(generation, num_choices)
        answers = [_to_answer(choice, facts, meta) for choice in choices]
        await send_json(caller.send, orjson.dumps(answers if is_list else answers[0]))


def _to_answer(choice: Choice, facts: AnswerFacts, meta: MetaInfo) -> dict[str, Any]:
    described = meta.describe(choice.last, facts)
    index = choice.last.index
    options = facts.logprobs_of(index)
    if options is not None:
        of_prompt, told = choice.prompt_logprobs or Logprobs(), choice.logprobs or Logprobs()
        described |= describe_logprobs("input", of_prompt, options, facts.text_of)
        described |= describe_logprobs("output", told, options, facts.text_of)
        described["output_token_logprobs_length"] = len(told.token_ids)
    answer = {"text": choice.text, "output_ids": choice.token_ids, "meta_info": described}
    prompt_ids = facts.prompt_of(index)
    return answer if prompt_ids is None else {**answer, "prompt_token_ids": prompt_ids}
