"""`load_model_config`: what a checkpoint is, whichever format it comes in."""

from pathlib import Path

from srt.configs.gguf_config import load_gguf_config
from srt.configs.hf_config import load_hf_config
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError


def load_model_config(path: Path) -> ModelConfig:
    """Of a Hugging Face folder or a .gguf file. Raises StartupError."""
    if path.is_dir():
        return load_hf_config(path)
    if not path.exists():
        raise StartupError(f"there is no checkpoint at {path}")
    if path.suffix == ".gguf":
        return load_gguf_config(path)
    raise StartupError(f"{path} is neither a Hugging Face folder nor a .gguf file")
