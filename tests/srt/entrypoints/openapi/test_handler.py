"""What the server says of itself, to programs and to browsers."""

import pytest

from srt.entrypoints.openapi.document import openapi_document
from srt.entrypoints.openapi.handler import prefers_html
from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import ask

pytestmark = pytest.mark.anyio

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (BROWSER, True),
        ("TEXT/HTML", True),
        ("*/*", False),
        ("", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("text/plain", False),
    ],
)
def test_html_is_for_who_asks_for_it(accept: str, expected: bool) -> None:
    assert prefers_html(accept) is expected


async def test_the_root_says_what_this_is_and_where_to_go() -> None:
    client = FakeEngineClient()
    about = (await ask(client, "GET", "/")).json()
    assert (about["server"], about["model"]) == ("lockstep", "tiny")
    for path in about["links"].values():
        assert (await ask(client, "GET", path)).status_code == 200


async def test_a_browser_gets_a_page_that_loads_nothing_from_elsewhere() -> None:
    for path in ("/", "/docs"):
        page = await ask(FakeEngineClient(), "GET", path, headers={"accept": BROWSER})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "://" not in page.text
        assert " src=" not in page.text


async def test_the_document_is_served() -> None:
    response = await ask(FakeEngineClient(), "GET", "/openapi.json")
    assert response.headers["content-type"] == "application/json"
    assert response.json() == openapi_document(has_api_key=False)
