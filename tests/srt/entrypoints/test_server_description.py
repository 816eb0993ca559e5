"""What is served, with which flags, and no secret."""

from typing import Any

import pytest

from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import ask

pytestmark = pytest.mark.anyio


async def get(client: FakeEngineClient, path: str) -> Any:
    response = await ask(client, "GET", path)
    assert response.status_code == 200, response.text
    return response.json()


async def test_server_info_tells_flags_and_state_but_no_secret() -> None:
    body = (await ask(FakeEngineClient(), "GET", "/server_info", args=ServerArgs(tp_size=2))).json()
    assert (body["tp_size"], body["model_path"], body["served_model_name"]) == (2, "/models/tiny", "tiny")
    assert (body["dp_size"], body["api_key"]) == (1, None)
    assert body["internal_states"] == [{"dp_rank": 0, "num_running_reqs": 3, "max_total_num_tokens": 1000}]
    response = await ask(
        FakeEngineClient(),
        "GET",
        "/get_server_info",
        args=ServerArgs(api_key="s3cret"),
        headers={"authorization": "Bearer s3cret"},
    )
    assert response.json()["api_key"] == "***"
    assert "s3cret" not in response.text


@pytest.mark.parametrize("path", ["/model_info", "/get_model_info"])
async def test_model_info(path: str) -> None:
    body = await get(FakeEngineClient(), path)
    assert body["model_path"] == "/models/tiny"
    assert body["architectures"] == ["LlamaForCausalLM"]
    assert body["is_generation"] is True
