from pathlib import Path

import pytest

from srt.env import AMX, cache_dir, wants_amx


def test_the_cache_lies_where_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_CACHE_DIR", "/var/somewhere")
    assert cache_dir() == Path("/var/somewhere")


@pytest.mark.parametrize("unset", [True, False])
def test_without_the_variable_it_lies_in_the_home_folder(
    unset: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("LOCKSTEP_CACHE_DIR", "")
    if unset:
        monkeypatch.delenv("LOCKSTEP_CACHE_DIR")
    assert cache_dir() == Path("/home/someone/.cache/lockstep")


@pytest.mark.parametrize(("value", "wanted"), [("0", False), ("1", True), ("", True)])
def test_amx_is_left_out_on_demand(value: str, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AMX.name, value)
    assert wants_amx() == wanted
