"""The page of /docs in a real browser: it reads the description, and asks what a person writes."""

import json
from typing import Any

import pytest

from tests.browser.playground_page import API_KEY, PlaygroundPage
from tests.e2e.server_process import ServerProcess

expect = pytest.importorskip("playwright.sync_api", reason="scripts/test_browser installs it").expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def page(locked: PlaygroundPage, server: ServerProcess) -> Any:
    """It must not complain or ask elsewhere; see `locked`."""
    locked.page.goto(f"{server.base_url}/docs")
    return locked.page


def choose(page: Any, endpoint: str) -> None:
    expect(page.locator("#about")).to_have_text("This server wants its API key.")
    page.get_by_label("API key").fill(API_KEY)
    page.get_by_label("API key").press("Tab")
    page.get_by_role("button", name=endpoint, exact=True).click()


def test_an_example_is_sent_and_answered(page: Any) -> None:
    choose(page, "POST /v1/chat/completions")
    assert json.loads(page.get_by_label("Body").input_value())["messages"]
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#status")).to_contain_text("200 in", timeout=60_000)
    assert json.loads(page.locator("#answer").inner_text())["choices"]


def test_a_stream_is_shown_as_it_comes(page: Any) -> None:
    choose(page, "POST /v1/responses")
    body = {"input": "Name three rivers.", "stream": True, "max_output_tokens": 8}
    page.get_by_label("Body").fill(json.dumps(body))
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#status")).to_contain_text("200 in", timeout=60_000)
    expect(page.locator("#answer")).to_contain_text("response.created")


def test_a_refusal_is_shown(page: Any) -> None:
    choose(page, "POST /v1/messages")
    page.get_by_label("Body").fill("{")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#status")).to_contain_text("400 in")
    expect(page.locator("#answer")).to_contain_text("invalid_request_error")
