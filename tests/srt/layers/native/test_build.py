"""Building the kernels: once, and with a reason where it cannot be done."""

from pathlib import Path

import pytest

from srt.env import CACHE_DIR, COMPILER
from srt.layers.native.build import Build, BuildError, build_library
from srt.layers.native.load import load_library


def test_what_was_built_is_used_again() -> None:
    build_library()
    again = build_library()
    assert again.seconds == 0
    assert load_library(again).instructions


def test_without_a_compiler_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILER.name, "no-such-compiler")
    with pytest.raises(BuildError, match="there is no C\\+\\+ compiler called no-such-compiler"):
        build_library()


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho a warning\necho simd.h:1: error: no vectors here\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv(COMPILER.name, str(compiler))
    with pytest.raises(BuildError, match=r"failed: simd\.h:1: error: no vectors here"):
        build_library()


def test_a_cache_that_cannot_be_written_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_DIR.name, str(tmp_path / "file"))
    with pytest.raises(BuildError, match="file/kernels \\(LOCKSTEP_CACHE_DIR\\) cannot be written"):
        build_library()


def test_a_library_that_does_not_load_is_the_reason(tmp_path: Path) -> None:
    broken = tmp_path / "kernels.so"
    broken.write_bytes(b"not a library")
    with pytest.raises(BuildError, match="cannot be loaded"):
        load_library(Build(broken, 0.0))
