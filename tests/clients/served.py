"""What the Python programs of this folder share: where the server is, and what every client should get from it."""

import json
import os
import time
import urllib.request
from typing import Any

URL = os.environ["LOCKSTEP_URL"]
QUESTION = "Name three rivers."
MAX_TOKENS = 24

WEATHER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Kyiv", "Lima"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "strict": True, "parameters": WEATHER_SCHEMA},
}
CITIES = ("Kyiv", "Lima")


def ask(path: str, body: Any = None) -> Any:
    """What the server says without any client between."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def model_name() -> str:
    """The served model."""
    return str(ask("/v1/models")["data"][0]["id"])


def greedy_answer() -> str:
    """The answer to QUESTION that every client should get."""
    body = {
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }
    return str(ask("/v1/chat/completions", body)["choices"][0]["message"]["content"])


def wait_until_idle() -> None:
    """Until nothing runs any more, for as long as the caller's own limit allows."""
    while any(load["num_running_reqs"] for load in ask("/v1/loads")["loads"]):
        time.sleep(0.05)
