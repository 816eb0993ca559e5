"""A JSON body sent whole."""

from starlette.types import Send


async def send_json(send: Send, body: bytes) -> None:
    """A 200 with this body."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
