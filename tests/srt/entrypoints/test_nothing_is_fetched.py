"""What a client could name for the server to run, open or fetch: all of it is refused or only text.

Sandboxing of the model's own template is tested in srt/tokenizer/test_chat_template.py; that a schema's `$ref` leads
nowhere but into the schema, in srt/constrained/test_json_schema.py.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from srt.engine_client import ChatPrompt
from tests.fakes.engine_client import LENGTH, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, COMPLETION, NATIVE, error_of, post

pytestmark = pytest.mark.anyio

INJECTION = "{{ cycler.__init__.__globals__.os.system('touch PATH') }}"


def parts(*content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, *content]}]}


# URL and PATH become a listening port and a file that must stay untouched.
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a template": ("/v1/chat/completions", CHAT | {"chat_template": INJECTION}),
    "a template to tokenize by": ("/tokenize", CHAT | {"chat_template": INJECTION}),
    "an image": ("/v1/chat/completions", parts({"type": "image_url", "image_url": {"url": "URL"}})),
    "an image of the machine": (
        "/v1/chat/completions",
        parts({"type": "image_url", "image_url": {"url": "file://PATH"}}),
    ),
    "a video": ("/v1/chat/completions", parts({"type": "video_url", "video_url": {"url": "URL"}})),
    "audio": ("/v1/chat/completions", parts({"type": "audio_url", "audio_url": {"url": "URL"}})),
    "a file": ("/v1/chat/completions", parts({"type": "file", "file": {"file_id": "PATH"}})),
    "image data": ("/generate", NATIVE | {"image_data": "URL"}),
    "audio data": ("/generate", NATIVE | {"audio_data": ["URL"]}),
    "an adapter": ("/v1/completions", COMPLETION | {"lora_path": "PATH"}),
    "a logit processor": ("/generate", NATIVE | {"custom_logit_processor": "gASVPATH"}),
    "a responses image": (
        "/v1/responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "URL"}]}]},
    ),
    "an anthropic image": (
        "/v1/messages",
        parts({"type": "image", "source": {"type": "url", "url": "URL"}}) | {"model": "m", "max_tokens": 4},
    ),
}


@contextmanager
def nobody_calls() -> Iterator[str]:
    """The address of a port to which nothing must connect."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def filled_in(value: Any, url: str, path: str) -> Any:
    match value:
        case dict():
            return {key: filled_in(inner, url, path) for key, inner in value.items()}
        case list():
            return [filled_in(inner, url, path) for inner in value]
        case str():
            return value.replace("URL", url).replace("PATH", path)
        case _:
            return value


@pytest.mark.parametrize("what", REFUSED)
async def test_what_could_be_run_or_fetched_is_a_400_and_nobody_is_called(what: str, tmp_path: Path) -> None:
    path, body = REFUSED[what]
    client, trap = FakeEngineClient(), tmp_path / "trap"
    with nobody_calls() as url:
        response = await post(client, path, filled_in(body, url, str(trap)))
        assert response.status_code == 400, response.text
        assert client.requests == []
    assert not trap.exists()


async def test_a_message_that_looks_like_a_template_is_text(tmp_path: Path) -> None:
    client = FakeEngineClient()
    client.answers.append([[chunk("x", finish=LENGTH)]])
    body = {"messages": [{"role": "user", "content": INJECTION}]}
    assert (await post(client, "/v1/chat/completions", body)).status_code == 200
    (prompt,) = client.requests[0].prompts
    assert isinstance(prompt, ChatPrompt)
    assert prompt.messages == [{"role": "user", "content": INJECTION}]


async def test_more_messages_than_a_chat_has_are_a_400() -> None:
    body = {"messages": CHAT["messages"] * 8193}
    response = await post(FakeEngineClient(), "/v1/chat/completions", body)
    assert response.status_code == 400
    assert error_of(response)["param"] == "messages"
