"""The one model that is served."""

import pytest

from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import ask, error_of, serving

pytestmark = pytest.mark.anyio


async def test_models_lists_the_served_one() -> None:
    async with serving(FakeEngineClient()) as world, world.openai() as openai:
        models = [model async for model in openai.models.list()]
        assert [model.id for model in models] == ["tiny"]
        assert (await openai.models.retrieve("tiny")).to_dict()["max_model_len"] == 4096


async def test_another_model_is_a_404() -> None:
    response = await ask(FakeEngineClient(), "GET", "/v1/models/org/other")
    assert response.status_code == 404
    assert error_of(response)["code"] == "model_not_found"
    assert error_of(response)["param"] == "model"
