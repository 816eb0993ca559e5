"""Every environment variable that Lockstep reads: name, default and meaning, and the one place that reads them."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class EnvVariable:
    """One variable, as the documentation shows it."""

    name: str
    default: str
    help: str


CACHE_DIR = EnvVariable(
    name="LOCKSTEP_CACHE_DIR",
    default="~/.cache/lockstep",
    help="Folder for what is made once and kept: tokenizers converted from GGUF or SentencePiece files.",
)

ALL = (CACHE_DIR,)


def cache_dir() -> Path:
    """The folder of LOCKSTEP_CACHE_DIR. It may not exist yet."""
    # A variable that is set but empty counts as not set, as in the shell's ${NAME:-default}.
    return Path(os.environ.get(CACHE_DIR.name) or CACHE_DIR.default).expanduser()
