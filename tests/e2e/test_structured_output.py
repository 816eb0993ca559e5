"""A model without any sense, held to a form: real grammars through real servers, of one rank and of two.

The model's weights are random, so whatever its answers have of a form they have from the grammar.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.e2e.server_process import ServerProcess

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 1, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
        "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/leaf"}]},
    },
    "required": ["name", "age", "tags", "next"],
    "$defs": {"leaf": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}},
}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<call>",
        "content": {"type": "json_schema", "json_schema": SCHEMA["properties"]["age"]},  # type: ignore[index]
        "end": "</call>",
    },
}
# A memory that many answers at once do not fit into, and prompts in chunks.
FLAGS = ("--dtype", "float32", "--max-total-tokens", "700", "--chunked-prefill-size", "32")
FLAGS += (
    "--schedule-conservativeness",
    "0",
    "--max-running-requests",
    "16",
    "--grammar-compile-timeout",
    "3",
)
NEVER_COMPILES = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3000)}}


@pytest.fixture(scope="module")
def server(tiny_model: str) -> Iterator[ServerProcess]:
    with ServerProcess("--model-path", tiny_model, *FLAGS) as server:
        yield server


def answer(server: ServerProcess, text: str = "Once", **sampling: Any) -> dict[str, Any]:
    response = server.post("/generate", {"text": text, "sampling_params": {"temperature": 1.0, **sampling}})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_an_answer_is_valid_by_its_schema(server: ServerProcess, temperature: float) -> None:
    text = answer(server, json_schema=SCHEMA, max_new_tokens=600, temperature=temperature, seed=4)["text"]
    jsonschema.validate(json.loads(text), SCHEMA)


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_patterns_grammars_and_tags(server: ServerProcess, ignore_eos: bool) -> None:
    more = {"ignore_eos": ignore_eos, "seed": 7, "frequency_penalty": 0.5, "n": 2}
    bias = {"2": 100, "0": 100}  # the end of the text, and a token that is no text
    for kind, grammar, pattern in (
        ("regex", "[0-9]{3}-[a-z]{2,4}x", r"\d{3}-[a-z]{2,4}x"),
        ("ebnf", 'root ::= "yes" | "no" tail\ntail ::= " "? [!.]', r"yes|no ?[!.]"),
        ("structural_tag", json.dumps(TAG), r"<call>\d+</call>"),
    ):
        body = {"text": "a", "sampling_params": {kind: grammar, "logit_bias": bias, **more}}
        for found in server.post("/generate", body).raise_for_status().json():
            assert re.fullmatch(pattern, found["text"]), found["text"]
            assert found["meta_info"]["finish_reason"]["type"] == "stop"


def test_an_answer_that_is_cut_off_says_so(server: ServerProcess) -> None:
    found = answer(server, regex="[0-9]{200}", max_new_tokens=5)
    assert found["meta_info"]["finish_reason"]["type"] == "length"
    assert re.fullmatch(r"\d+", found["text"])


@pytest.mark.parametrize(
    ("grammar", "problem"),
    [
        ({"regex": "(unclosed"}, "parenthesis"),
        ({"regex": "(?<=a)b"}, "not supported"),
        ({"ebnf": "root ::= "}, "Expect element"),
        ({"json_schema": {"type": "array", "items": "notaschema"}}, "a schema is an object"),
        ({"json_schema": {"type": "array", "uniqueItems": True}}, "uniqueItems"),
        ({"structural_tag": {"type": "frob"}}, ""),
        ({"ebnf": "root ::= root"}, "nothing can match"),
    ],
)
def test_a_bad_grammar_is_a_400_that_names_its_field(
    server: ServerProcess, grammar: dict[str, Any], problem: str
) -> None:
    response = server.post("/generate", {"text": "a", "sampling_params": grammar, "stream": True})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["param"], problem in error["message"]) == (f"sampling_params.{next(iter(grammar))}", True)


def test_a_hostile_grammar_is_a_400_in_time_and_nobody_else_notices(server: ServerProcess) -> None:
    async def all_at_once() -> None:
        async with server.async_http() as client:
            hostile = [
                asyncio.create_task(
                    client.post(
                        "/generate",
                        json={
                            "text": "a",
                            "sampling_params": {"json_schema": {**NEVER_COMPILES, "title": str(i)}},
                        },
                    )
                )
                for i in range(2)
            ]
            for number in range(10):
                sampling = {"regex": f"[a-f]{{{number + 1}}}", "max_new_tokens": 20}
                found = await client.post("/generate", json={"text": "a", "sampling_params": sampling})
                assert re.fullmatch("[a-f]+", found.json()["text"])
            for response in await asyncio.gather(*hostile):
                assert response.status_code == 400, response.text

    asyncio.run(all_at_once())


def bodies() -> list[dict[str, Any]]:
    """Many at once: chunks, retractions, seeds, with a form and without."""
    grammars: list[dict[str, Any]] = [
        {"json_schema": SCHEMA},
        {"regex": "([a-z]+ ){5,30}end"},
        {"ebnf": 'root ::= ("ab" | "c")+ "."'},
        {},
    ]
    return [
        {
            "text": "one two three " * (1 + number % 9),
            "sampling_params": {
                "max_new_tokens": 60,
                "temperature": 0 if number % 3 else 0.7,
                "top_k": 4,
                "seed": number,
                "ignore_eos": True,
                "repetition_penalty": 1.1,
                **grammars[number % len(grammars)],
            },
        }
        for number in range(16)
    ]


async def ask_all(server: ServerProcess) -> list[list[int]]:
    async with server.async_http() as client:
        responses = await asyncio.gather(*(client.post("/generate", json=body) for body in bodies()))
    assert all(response.status_code == 200 for response in responses), [r.text for r in responses]
    return [response.json()["output_ids"] for response in responses]


def test_two_ranks_overlapped_say_what_one_rank_says_and_what_each_says_alone(
    server: ServerProcess, tiny_model: str
) -> None:
    one = asyncio.run(ask_all(server))
    assert asyncio.run(ask_all(server)) == one  # now nobody waits for a compiler: all run at once
    alone = [server.post("/generate", body).raise_for_status().json()["output_ids"] for body in bodies()[::3]]
    assert one[::3] == alone
    assert int(server.get("/server_info")["internal_states"][0]["num_retractions"]) > 0
    with ServerProcess(
        "--model-path", tiny_model, "--tp-size", "2", "--enable-overlap-schedule", *FLAGS
    ) as two_ranks:
        assert asyncio.run(ask_all(two_ranks)) == one
        # As after a crash of the whole machine: it is only started again, and nobody is missed.
        two_ranks.child("grammar_compiler").kill()
        assert re.fullmatch("x[0-9]", answer(two_ranks, regex="x[0-9]")["text"])
        assert two_ranks.terminate() == 0
        assert two_ranks.leftovers() == []
