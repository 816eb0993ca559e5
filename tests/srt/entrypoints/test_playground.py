"""The page as it is served. What it does in a browser: tests/browser/test_playground.py."""

import re
from pathlib import Path

import pytest

import srt.entrypoints.playground
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import ask

pytestmark = pytest.mark.anyio

PAGE = Path(srt.entrypoints.playground.__file__).with_suffix(".html").read_text(encoding="utf-8")
SCRIPT = PAGE.partition("<script>")[2].partition("</script>")[0]


async def test_the_page_is_there_without_the_key_that_its_data_needs() -> None:
    args = ServerArgs(api_key="secret")
    page = await ask(FakeEngineClient(), "GET", "/playground", args=args)
    assert (page.status_code, page.text) == (200, PAGE)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert (await ask(FakeEngineClient(), "GET", "/v1/loads", args=args)).status_code == 401


async def test_its_policy_allows_its_own_script_and_style_and_this_server() -> None:
    page = await ask(FakeEngineClient(), "GET", "/playground")
    policy = dict(
        directive.strip().split(" ", 1) for directive in page.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["trusted-types"] == "'none'"
    for kind in ("script-src", "style-src"):
        assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", policy[kind])
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


def test_it_names_no_other_place() -> None:
    assert "://" not in PAGE
    assert not re.search(r"<(?:iframe|object|embed|base|form[^>]* action)|\ssrc=|@import|url\(", PAGE)
    assert re.findall(r'<link [^>]*href="(.{5})', PAGE) == ["data:"]


@pytest.mark.parametrize(
    "way", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
)
def test_what_a_model_says_never_becomes_markup(way: str) -> None:
    assert way not in SCRIPT


def test_no_element_carries_script_or_style_of_its_own() -> None:
    assert len(re.findall("<script", PAGE)) == len(re.findall("<style", PAGE)) == 1
    assert not re.search(r'<[^>]*\s(?:on[a-z]+|style)="', PAGE)


def test_every_name_that_the_script_looks_up_is_an_element() -> None:
    wanted = set(re.findall(r'\$\("([a-z_-]+)"\)', SCRIPT)) | set(
        re.findall(r'setFigure\("([a-z-]+)"', SCRIPT)
    )
    assert wanted
    assert wanted <= set(re.findall(r'\sid="([a-z_-]+)"', PAGE))


def test_every_field_has_a_label() -> None:
    fields = set(re.findall(r'<(?:input|textarea) id="([a-z_-]+)"', PAGE))
    labelled = set(re.findall(r'<label[^>]* for="([a-z_-]+)"', PAGE))
    inside_of_its_label = set(re.findall(r'<label class="check"><input id="([a-z_-]+)"', PAGE))
    assert fields
    assert fields == labelled | inside_of_its_label
