"""/tokenize and /detokenize: what the model would see, and what its ids spell."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from srt.engine_client import EngineClient, TextPrompt
from srt.entrypoints.openai.chat.messages import to_chat_prompt
from srt.entrypoints.openai.chat.protocol import ChatMessage
from srt.entrypoints.refused_fields import Refused, refuse_fields
from srt.entrypoints.request_body import read_json
from srt.errors import InvalidRequest


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """Either `prompt` or `messages`."""

    prompt: str | list[str] | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    tools: Refused = None
    chat_template: Refused = None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    """Token ids, or several lists of them."""

    tokens: list[int | list[int]]
    skip_special_tokens: bool | None = None


_TOKENIZE_DECODER = msgspec.json.Decoder(TokenizeRequest)
_DETOKENIZE_DECODER = msgspec.json.Decoder(DetokenizeRequest)


class Tokenization:
    """The two endpoints."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def tokenize(self, request: Request) -> Response:
        """Token ids and their number; for several prompts, lists of both."""
        body = await read_json(request.scope, request.receive, _TOKENIZE_DECODER)
        refuse_fields(body)
        if (body.prompt is None) == (body.messages is None):
            raise InvalidRequest("exactly one of prompt and messages is needed", param="prompt")
        tokens = await self._token_ids(body)
        max_model_len = self._client.model_info.context_length
        count = [len(row) for row in tokens]
        if isinstance(body.prompt, list):
            return _response({"tokens": tokens, "count": count, "max_model_len": max_model_len})
        return _response({"tokens": tokens[0], "count": count[0], "max_model_len": max_model_len})

    async def _token_ids(self, body: TokenizeRequest) -> list[list[int]]:
        if body.messages is not None:
            prompt = to_chat_prompt(
                body.messages,
                add_generation_prompt=body.add_generation_prompt,
                continue_final_message=body.continue_final_message,
                template_kwargs=body.chat_template_kwargs,
            )
            return [await self._client.tokenize(prompt)]
        assert body.prompt is not None, "checked by the caller"
        texts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        add = body.add_special_tokens is not False
        return [await self._client.tokenize(TextPrompt(text), add_special_tokens=add) for text in texts]

    async def detokenize(self, request: Request) -> Response:
        """The text of the ids; for several lists, a list of texts."""
        body = await read_json(request.scope, request.receive, _DETOKENIZE_DECODER)
        skip = body.skip_special_tokens is not False
        rows = [row for row in body.tokens if isinstance(row, list)]
        ids = [row for row in body.tokens if isinstance(row, int)]
        if rows and ids:
            raise InvalidRequest("tokens mixes token ids and lists", param="tokens")
        if rows:
            texts = [await self._client.detokenize(row, skip_special_tokens=skip) for row in rows]
            return JSONResponse({"text": texts})
        return JSONResponse({"text": await self._client.detokenize(ids, skip_special_tokens=skip)})


def _response(body: dict[str, Any]) -> Response:
    # A million ids are some milliseconds here, and the better part of a second with the standard library.
    return Response(msgspec.json.encode(body), media_type="application/json")
