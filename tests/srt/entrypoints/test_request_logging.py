"""What the log says of requests, level by level."""

import json
import logging
from pathlib import Path

import pytest

from srt.errors import QueueFull
from srt.observability.request_log import NAME, open_request_log
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import LENGTH, FakeEngineClient, chunk
from tests.fakes.http_world import post

pytestmark = pytest.mark.anyio

PATH = "/v1/chat/completions"
ASKED: dict[str, object] = {
    "messages": [{"role": "user", "content": "the question"}],
    "temperature": 0.5,
    "rid": "mine",
}
ASKED["stop"] = ["no more questions"]
LONG = {"messages": [{"role": "user", "content": "x" * 5000}]}


async def lines(
    caplog: pytest.LogCaptureFixture, level: int, body: object = ASKED, *, refusal: Exception | None = None
) -> dict[str, dict[str, object]]:
    """What is said beside each message."""
    caplog.set_level(logging.INFO)
    client = FakeEngineClient([[chunk("the ")], [chunk("answer", finish=LENGTH, completion_tokens=2)]])
    client.refusal = refusal
    await post(client, PATH, body, args=ServerArgs(log_requests=True, log_requests_level=level))
    return {
        record.getMessage(): record.__dict__["fields"] for record in caplog.records if record.name == NAME
    }


async def test_names_and_figures(caplog: pytest.LogCaptureFixture) -> None:
    told = await lines(caplog, 0)
    assert told["request received"] == {"rid": "mine", "stream": False, "num_prompts": 1, "n": 1}
    finished = told["request finished"]
    assert finished.pop("duration_s") is not None
    assert finished.pop("first_chunk_s") is not None
    assert finished == {
        "rid": "mine",
        "finish_reasons": ["length"],
        "prompt_tokens": len("the question"),
        "completion_tokens": 2,
        "cached_tokens": 2,
    }


async def test_then_sampling_settings(caplog: pytest.LogCaptureFixture) -> None:
    told = await lines(caplog, 1)
    assert told["request received"]["sampling"]["temperature"] == 0.5  # type: ignore[index]


@pytest.mark.parametrize("level", [0, 1])
async def test_nothing_that_was_written_unless_asked_for(
    caplog: pytest.LogCaptureFixture, level: int
) -> None:
    told = await lines(caplog, level)
    assert "question" not in str(told)
    assert "answer" not in str(told)


async def test_then_prompts_and_answers_up_to_a_length(caplog: pytest.LogCaptureFixture) -> None:
    told = await lines(caplog, 2, LONG)
    assert told["request finished"]["answers"] == ["the answer"]
    (prompt,) = told["request received"]["prompts"]  # type: ignore[misc]
    assert prompt.endswith("… (5030 characters in all)")
    assert 2048 < len(prompt) < 2100


async def test_then_all_of_them(caplog: pytest.LogCaptureFixture) -> None:
    (prompt,) = (await lines(caplog, 3, LONG))["request received"]["prompts"]  # type: ignore[misc]
    assert len(prompt) == 5030


async def test_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    told = await lines(caplog, 0, refusal=QueueFull("no room"))
    assert told["request refused"]["status"] == 503
    assert told["request refused"]["error"] == "no room"


async def test_without_the_flag_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await post(FakeEngineClient([[chunk("hi", finish=LENGTH)]]), PATH, ASKED)
    assert [record for record in caplog.records if record.name == NAME] == []


async def test_a_folder_gets_json_lines(tmp_path: Path) -> None:
    folder = tmp_path / "requests"
    args = ServerArgs(log_requests=True, log_requests_level=2, log_requests_target=str(folder))
    await post(FakeEngineClient([[chunk("hi", finish=LENGTH)]]), PATH, ASKED, args=args)
    open_request_log("log", "text")  # closes the file, and leaves nothing for other tests
    (file,) = folder.iterdir()
    read = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["message"] for line in read] == ["request received", "request finished"]
    assert read[1]["answers"] == ["hi"]
