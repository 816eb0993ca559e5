"""A headless Chromium with the playground of a real server in it. `scripts/test_browser` installs what this needs."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.playground_page import API_KEY, PlaygroundPage
from tests.e2e.server_process import ServerProcess

# Nothing that a fresh profile would do on its own: no first-run page, no update, no sync.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--api-key", API_KEY, "--dtype", "float32", "--max-total-tokens", "20000") as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert path is not None, "there is no Chromium: scripts/test_browser installs it"
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def locked(server: ServerProcess, browser: Any) -> Iterator[PlaygroundPage]:
    """As one finds it: without the key. Whatever happens, the page must not complain or ask elsewhere."""
    page = PlaygroundPage(browser.new_page(viewport={"width": 1280, "height": 800}), server.base_url)
    yield page
    page.close()
    assert page.complaints == []
    assert page.foreign_requests == []


@pytest.fixture
def playground(locked: PlaygroundPage) -> PlaygroundPage:
    """With the key typed in."""
    locked.open()
    locked.unlock()
    return locked
