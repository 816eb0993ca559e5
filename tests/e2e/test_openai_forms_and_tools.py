"""Forms and tools over the official client, on a model that writes nonsense: what is right is right by the grammar."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from tests.e2e.server_process import ServerProcess

TEMPLATE = (
    "{% if tools %}<|im_start|>system\nUse <tool_call>s of {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MESSAGES: Any = [{"role": "user", "content": "Which?"}]
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": name,
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"unit": {"enum": ["km", "mile"]}},
                "required": ["unit"],
                "additionalProperties": False,
            },
        },
    }
    for name in ("distance", "speed")
]


class Verdict(BaseModel):
    colour: Literal["red", "green"]
    is_sure: bool


@pytest.fixture(scope="module")
def client(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    template: Path = tmp_path_factory.mktemp("template") / "template.jinja"
    template.write_text(TEMPLATE)
    flags = ("--model-path", tiny_model, "--dtype", "float32", "--max-total-tokens", "8000")
    parsers = ("--chat-template", str(template), "--tool-call-parser", "hermes")
    with ServerProcess(*flags, *parsers) as server:
        yield server.client()


def test_parse_gives_an_object_of_the_class_that_was_asked_for(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="m", messages=MESSAGES, response_format=Verdict, max_tokens=600, seed=1
    )
    assert isinstance(answer.choices[0].message.parsed, Verdict)
    assert answer.choices[0].finish_reason == "stop"


def test_a_stream_of_a_form_is_parsed_as_it_comes(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="m", messages=MESSAGES, response_format=Verdict, max_tokens=600, seed=1
    ) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert isinstance(answer.choices[0].message.parsed, Verdict)


def test_a_completion_is_one_of_the_choices(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="m", prompt="x", n=4, seed=3, extra_body={"guided_choice": ["yes", "no"]}
    )
    assert {choice.text for choice in answer.choices} <= {"yes", "no"}


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_required_call_is_made_with_arguments_of_its_schema(client: openai.OpenAI, is_stream: bool) -> None:
    body: Any = {
        "model": "m",
        "messages": MESSAGES,
        "tools": TOOLS,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 600,
        "seed": 1,
    }
    if is_stream:
        with client.chat.completions.stream(**body) as stream:
            answer: Any = stream.get_final_completion()
    else:
        answer = client.chat.completions.create(**body)
    (choice,) = answer.choices
    (call,) = choice.message.tool_calls or ()
    assert choice.finish_reason == "tool_calls"
    assert not choice.message.content
    assert call.function.name in ("distance", "speed")
    assert json.loads(call.function.arguments)["unit"] in ("km", "mile")
    assert answer.usage is None or answer.usage.completion_tokens > 1


def test_a_named_tool_is_the_one_that_is_called(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="m",
        messages=MESSAGES,
        tools=TOOLS,
        tool_choice={"type": "function", "function": {"name": "speed"}},
        parallel_tool_calls=False,
        max_tokens=600,
        seed=1,
    )
    assert [call.function.name for call in answer.choices[0].message.tool_calls or ()] == ["speed"]


def test_a_schema_that_cannot_be_enforced_is_a_bad_request_that_names_the_field(
    client: openai.OpenAI,
) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "no such type"}}}
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="m", messages=MESSAGES, response_format=form)
    assert raised.value.param == "response_format"


def test_usage_of_a_stream_is_that_of_the_whole_answer(client: openai.OpenAI) -> None:
    body: Any = {"model": "m", "messages": MESSAGES, "max_tokens": 9, "seed": 5, "n": 2}
    whole = client.chat.completions.create(**body)
    chunks = client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True})
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert whole.usage is not None
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
    )
