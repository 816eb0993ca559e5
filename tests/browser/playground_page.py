"""What a person does on the playground, in their words."""

import json
from typing import Any

API_KEY = "key-of-the-playground-tests"

# Chromium reports every answer that is no success, whatever the page does with it.
STATUS_REPORT = "Failed to load resource: the server responded with a status of "


class PlaygroundPage:
    """A page of a browser, and what it complained of or asked elsewhere. `page` is Playwright's."""

    def __init__(self, page: Any, base_url: str) -> None:
        self.page = page
        self.base_url = base_url
        self.complaints: list[str] = []
        self.foreign_requests: list[str] = []
        self.asked: list[str] = []  # paths, in order
        self.bodies: list[Any] = []  # of chat requests
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._note_request)

    def open(self) -> None:
        self.page.goto(f"{self.base_url}/playground")

    def close(self) -> None:
        self.page.close()

    def unlock(self) -> None:
        """Type the API key, and wait until the page knows the server."""
        self.set("API key", API_KEY)
        self.page.get_by_label("API key").press("Tab")
        self.page.locator("#model", has_text="tokens of context").wait_for()

    def set(self, label: str, value: str) -> None:
        self.page.get_by_label(label, exact=True).fill(value)

    def set_more(self, **fields: Any) -> None:
        """Fields of the body that have no place of their own on the page."""
        self.page.get_by_text("Tools and other fields").click()
        self.set("More of the body (JSON)", json.dumps(fields))

    def say(self, text: str) -> None:
        self.set("Message", text)
        self.page.keyboard.press("Enter")

    def answer(self, number: int = 1) -> Any:
        """The answer of this number, when it has ended, however it did."""
        answer = self.page.locator(".assistant:not(.busy)").nth(number - 1)
        answer.wait_for(timeout=60_000)
        return answer

    def play(self, *events: Any) -> None:
        """The next chat requests get these events, as a server would send them."""
        datas = [event if isinstance(event, str) else json.dumps(event) for event in events]
        body = "".join(f"data: {data}\n\n" for data in datas)
        self.page.route(
            "**/v1/chat/completions",
            lambda route: route.fulfill(content_type="text/event-stream; charset=utf-8", body=body),
        )

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(STATUS_REPORT):
            self.complaints.append(message.text)

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith((f"{self.base_url}/", "data:")):
            self.foreign_requests.append(request.url)
        self.asked.append(request.url.removeprefix(self.base_url))
        if request.url.endswith("/v1/chat/completions"):
            self.bodies.append(request.post_data_json)


def chunk(
    finish_reason: str | None = None, logprobs: list[Any] | None = None, **delta: Any
) -> dict[str, Any]:
    """One event of a chat stream."""
    choice = {
        "index": 0,
        "delta": delta,
        "logprobs": None if logprobs is None else {"content": logprobs, "refusal": None},
        "finish_reason": finish_reason,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def token(text: str | bytes, logprob: float = -0.5) -> dict[str, Any]:
    """What a stream says of one token, as OpenAI spells it."""
    data = text.encode() if isinstance(text, str) else text
    fields = {"token": data.decode(errors="replace"), "bytes": list(data), "logprob": logprob}
    return {**fields, "top_logprobs": [fields]}
