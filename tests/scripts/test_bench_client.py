import pytest

from bench_client import ChunkedBody, Target

BODY = b"4\r\nWiki\r\n7;name=value\r\npedia i\r\nB\r\nn \r\nchunks.\r\n0\r\nTrailer: x\r\n\r\n"
PAYLOAD = b"Wikipedia in \r\nchunks."


@pytest.mark.parametrize("cut", range(1, len(BODY)))
def test_a_chunked_body_is_the_same_wherever_the_network_cuts_it(cut: int) -> None:
    body = ChunkedBody()
    payload = body.feed(BODY[:cut])
    assert not body.is_complete
    payload += body.feed(BODY[cut:])
    assert (payload, body.is_complete) == (PAYLOAD, True)


def test_a_chunked_body_survives_one_byte_at_a_time() -> None:
    body = ChunkedBody()
    assert b"".join(body.feed(bytes([byte])) for byte in BODY) == PAYLOAD
    assert body.is_complete


@pytest.mark.parametrize(
    ("base_url", "host", "port", "request_line"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, b"POST /v1/chat/completions HTTP/1.1"),
        ("http://127.0.0.1:8000/v1/", "127.0.0.1", 8000, b"POST /v1/chat/completions HTTP/1.1"),
        ("some-host:81/prefix", "some-host", 81, b"POST /prefix/v1/chat/completions HTTP/1.1"),
        ("http://some-host", "some-host", 80, b"POST /v1/chat/completions HTTP/1.1"),
    ],
)
def test_a_base_url_may_be_written_with_or_without_its_usual_parts(
    base_url: str, host: str, port: int, request_line: bytes
) -> None:
    target = Target(base_url, api_key=None)
    assert (target.host, target.port) == (host, port)
    assert target.encode("chat", {}).startswith(request_line)
