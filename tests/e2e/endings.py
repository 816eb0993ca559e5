"""How a request ended for its client. There is exactly one ending for each, and everything else is an error."""

import json
from typing import Any, Literal

import httpx

Ending = Literal["finished", "aborted", "refused", "late", "left"]

EVENT = "data: "


async def ask(client: httpx.AsyncClient, path: str, body: dict[str, Any], num_choices: int) -> Ending:
    """Send a request and read all of the answer; says how it ended."""
    response = await client.post(path, json=body)
    if response.status_code != 200:
        return refusal(response)
    if body["stream"]:
        return end_of_stream(response.text, num_choices)
    return end_of_whole(response.json(), num_choices)


def refusal(response: httpx.Response) -> Ending:
    """A 503 that says when to come back, or a 504; anything else is a failure."""
    error = response.json()["error"]
    if response.status_code == 503:
        assert error["type"] == "service_unavailable"
        assert int(response.headers["retry-after"]) >= 1
        return "refused"
    assert (response.status_code, error["type"]) == (504, "server_error"), response.text
    return "late"


def end_of_stream(text: str, num_choices: int) -> Ending:
    """Each choice ends once and says nothing more, or one error event ends them all; then comes the last line."""
    *events, done = text.removesuffix("\n\n").split("\n\n")
    assert done == f"{EVENT}[DONE]"
    reasons: dict[int, str] = {}
    for number, event in enumerate(events):
        news = json.loads(event.removeprefix(EVENT))
        if "error" in news:
            assert number == len(events) - 1, text
            return "late" if "took longer" in news["error"]["message"] else "refused"
        for choice in news.get("choices", [news]):
            index = choice.get("index", 0)
            assert index not in reasons, text
            if (reason := reason_of(choice)) is not None:
                reasons[index] = reason
    assert sorted(reasons) == list(range(num_choices)), text
    return "aborted" if "abort" in reasons.values() else "finished"


def end_of_whole(answer: Any, num_choices: int) -> Ending:
    """Every choice has its reason."""
    choices = answer["choices"] if "choices" in answer else answer if isinstance(answer, list) else [answer]
    reasons = [reason_of(choice) for choice in choices]
    assert len(reasons) == num_choices
    assert None not in reasons
    return "aborted" if "abort" in reasons else "finished"


def reason_of(choice: dict[str, Any]) -> str | None:
    """The finish reason, in OpenAI's place or in SGLang's."""
    reason = choice["meta_info"]["finish_reason"] if "meta_info" in choice else choice["finish_reason"]
    return reason["type"] if isinstance(reason, dict) else reason
