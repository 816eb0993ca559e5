"""What every generating endpoint does before its own work: read the body, and stop when the client leaves."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from srt.entrypoints.chunked_body import ChunkedBody, chunked_body
from srt.entrypoints.disconnect import until_disconnect
from srt.entrypoints.dp_rank import AskedRank, RoutedBody, asked_dp_rank
from srt.entrypoints.middleware import request_label
from srt.entrypoints.request_body import read_json

B = TypeVar("B", bound=RoutedBody)


class Caller(NamedTuple):
    """Who asked, beside what the body says. `label` is the request's, `dp_rank` the replica it wants."""

    label: str
    asked: AskedRank
    send: Send
    body: ChunkedBody | None  # a shorter way for the events of a stream, where there is one


async def serve_body(
    scope: Scope,
    receive: Receive,
    send: Send,
    decoder: msgspec.json.Decoder[B],
    answer: Callable[[B, Caller], Coroutine[Any, Any, None]],
) -> None:
    """Answer one request, for as long as its client stays. Raises RequestError and ClientDisconnected."""
    body = await read_json(scope, receive, decoder)
    caller = Caller(request_label(scope), asked_dp_rank(scope, body), send, chunked_body(scope))
    await until_disconnect(receive, answer(body, caller))
