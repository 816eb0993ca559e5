import socket
from pathlib import Path

import pytest

from srt.util.service_manager import READY, tell_service_manager


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_a_manager_hears_it(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address if kind == "file" else "\0" + address)
        monkeypatch.setenv("NOTIFY_SOCKET", address if kind == "file" else "@" + address)
        tell_service_manager(READY)
        assert manager.recv(100) == b"READY=1"


def test_one_that_is_gone_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    tell_service_manager(READY)
    (line,) = caplog.messages
    assert "READY=1" in line


def test_without_a_manager_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell_service_manager(READY)
    assert caplog.messages == []
