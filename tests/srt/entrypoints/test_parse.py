"""A finished answer to its parts, in the shapes of SGLang."""

from typing import Any

import msgspec
import pytest

from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import error_of, post
from tests.srt.parsers.answers import CITY, TOOLS

pytestmark = pytest.mark.anyio

CALL = f'So.\n<tool_call>\n{{"name": "get_weather", "arguments": {CITY}}}\n</tool_call>'
CALLS = [{"tool_index": 0, "name": "get_weather", "parameters": CITY}]


def client_with(**parsers: str) -> FakeEngineClient:
    client = FakeEngineClient()
    client.model_info = msgspec.structs.replace(client.model_info, **parsers)
    return client


@pytest.mark.parametrize("tools", [TOOLS, None])
async def test_calls_are_told_from_the_text_around_them(tools: Any) -> None:
    body = {"text": CALL, "tools": tools, "tool_call_parser": "qwen25"}
    response = await post(FakeEngineClient(), "/parse_function_call", body)
    assert response.json() == {"normal_text": "So.", "calls": CALLS}


async def test_the_servers_own_format_is_the_default() -> None:
    response = await post(client_with(tool_call_parser="hermes"), "/parse_function_call", {"text": CALL})
    assert response.json()["calls"] == CALLS
    body = {"text": "[THINK]a[/THINK]b"}
    response = await post(client_with(reasoning_parser="mistral"), "/separate_reasoning", body)
    assert response.json() == {"reasoning_text": "a", "text": "b"}


async def test_a_call_of_another_function_is_text() -> None:
    body = {"text": CALL, "tools": [], "tool_call_parser": "hermes"}
    response = await post(FakeEngineClient(), "/parse_function_call", body)
    assert response.json() == {"normal_text": CALL, "calls": []}


@pytest.mark.parametrize(
    ("text", "parser", "reasoning", "content"),
    [
        ("<think>\na\n</think>\n\nb", "qwen3", "a", "b"),
        ("a</think>b", "qwen3", "a", "b"),
        ("a", "qwen3", "", "a"),
        ("a", "deepseek-r1", "a", ""),
        ("a</think>b<think>c", "qwen3", "a", "b<think>c"),
    ],
)
async def test_reasoning_is_told_from_the_answer(
    text: str, parser: str, reasoning: str, content: str
) -> None:
    response = await post(
        FakeEngineClient(), "/separate_reasoning", {"text": text, "reasoning_parser": parser}
    )
    assert response.json() == {"reasoning_text": reasoning, "text": content}


@pytest.mark.parametrize(
    ("path", "body", "param", "words"),
    [
        ("/parse_function_call", {"text": "a"}, "tool_call_parser", "hermes"),
        ("/parse_function_call", {"text": "a", "tool_call_parser": "x"}, "tool_call_parser", "called x"),
        ("/parse_function_call", {"text": 1}, "text", "text"),
        ("/separate_reasoning", {"text": "a"}, "reasoning_parser", "deepseek-r1"),
        ("/separate_reasoning", {"text": "a", "reasoning_parser": "hermes"}, "reasoning_parser", "qwen3"),
        ("/separate_reasoning", {"text": "a", "return_blocks": True}, "return_blocks", "not supported"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(path: str, body: dict[str, Any], param: str, words: str) -> None:
    response = await post(FakeEngineClient(), path, body)
    assert response.status_code == 400
    assert error_of(response)["param"] == param
    assert words in error_of(response)["message"]
