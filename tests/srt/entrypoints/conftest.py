import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Which loop runs async tests."""
    return "asyncio"
