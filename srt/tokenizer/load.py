"""From a checkpoint to a `Tokenizer`. Loads neither torch nor transformers.

A checkpoint without tokenizer.json (SentencePiece, GGUF) is converted once, in a short-lived child process, and kept.
"""

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from srt.env import CACHE_DIR, cache_dir
from srt.errors import StartupError
from srt.tokenizer.fast_tokenizer import FastTokenizer
from srt.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

# Part of the cache's key: raise it when convert.py changes what it writes.
CONVERTER_VERSION = 1
CONVERSION_TIMEOUT_S = 600
# What a tokenizer can be made of, and what changes it. The first two are needed, either of them.
SLOW_FILES = (
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "config.json",
)


def prepare_tokenizer(path: Path) -> Path:
    """A folder that holds tokenizer.json, for a checkpoint's folder or .gguf file. Raises StartupError.

    The first call for a file may take seconds; later ones find its result under $LOCKSTEP_CACHE_DIR or
    ~/.cache/lockstep. Any number of processes may call at once.
    """
    if (path / "tokenizer.json").is_file():
        return path
    files = _files_to_convert(path)
    source = path if path.is_dir() and files[0].suffix != ".gguf" else files[0]
    folder = cache_dir() / "tokenizers" / f"{source.stem}-{_fingerprint(files)}"
    if not (folder / "tokenizer.json").is_file():
        logger.info("converting the tokenizer of %s, once", source)
        _convert_into(source, folder)
    return folder


def load_tokenizer(folder: Path, chat_template_path: str | None = None) -> Tokenizer:
    """The tokenizer of a folder that `prepare_tokenizer` gave. `chat_template_path` names a file to use instead of its
    own chat template. Raises StartupError."""
    # One text is encoded by one thread; ours are several, and a thread pool inside would only stand in their way.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    path = folder / "tokenizer.json"
    try:
        backend = Backend.from_buffer(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StartupError(f"cannot load the tokenizer {path}: {error}") from error
    config = _read_json(folder / "special_tokens_map.json") | _read_json(folder / "tokenizer_config.json")
    return FastTokenizer(
        backend,
        bos_token=_spelling(config.get("bos_token")),
        eos_token=_spelling(config.get("eos_token")),
        chat_template=_chat_template(folder, config, chat_template_path),
    )


def _files_to_convert(path: Path) -> list[Path]:
    if path.suffix == ".gguf" and path.is_file():
        return [path]
    found = [path / name for name in SLOW_FILES if (path / name).is_file()]
    if found and found[0].name in SLOW_FILES[:2]:
        return found
    gguf_files = sorted(path.glob("*.gguf")) if path.is_dir() else []
    if len(gguf_files) == 1:
        return gguf_files
    raise StartupError(
        f"{path} holds no tokenizer",
        hint="expected tokenizer.json or tokenizer.model; --tokenizer-path names a folder",
    )


def _fingerprint(files: Sequence[Path]) -> str:
    """Changes when any of the files does."""
    facts = [(str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr((CONVERTER_VERSION, facts)).encode()).hexdigest()[:16]


def _convert_into(source: Path, folder: Path) -> None:
    """Fill the folder in one step: it is made beside its place and renamed when it is complete."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    except OSError as error:
        raise StartupError(
            f"cannot keep the converted tokenizer under {folder.parent}: {error.strerror}",
            hint=f"set {CACHE_DIR.name} to a folder that can be written",
        ) from error
    try:
        _run_converter(source, unfinished)
        try:
            unfinished.rename(folder)
        except OSError as error:
            # Another server may have been faster; its result is as good.
            if not (folder / "tokenizer.json").is_file():
                raise StartupError(f"cannot write {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _run_converter(source: Path, out_dir: Path) -> None:
    program = Path(__file__).with_name("convert.py")
    # -P: the program's own folder must not shadow packages. Nothing is fetched from anywhere.
    command = [sys.executable, "-P", str(program), str(source.absolute()), str(out_dir)]
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    try:
        child = subprocess.run(
            command,
            env=os.environ | offline,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=CONVERSION_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StartupError(
            f"converting the tokenizer of {source} took over {CONVERSION_TIMEOUT_S} s"
        ) from error
    if child.returncode != 0 or not (out_dir / "tokenizer.json").is_file():
        last_line = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise StartupError(f"cannot convert the tokenizer of {source}: {last_line or child.returncode}")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StartupError(f"cannot read {path}: {error}") from error
    return content if isinstance(content, dict) else {}


def _spelling(token: Any) -> str | None:
    """A special token is a text, or an object that holds it."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _chat_template(folder: Path, config: Mapping[str, Any], path: str | None) -> str | None:
    """The file named by the user, else the folder's own file, else what the config holds."""
    own_file = folder / "chat_template.jinja"
    file = Path(path).expanduser() if path is not None else own_file
    if path is not None or own_file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise StartupError(f"cannot read the chat template {file}: {error}") from error
    template = config.get("chat_template")
    if isinstance(template, list):  # several with names: the one for plain chat
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default") or (next(iter(named.values())) if len(named) == 1 else None)
    return template if isinstance(template, str) else None
