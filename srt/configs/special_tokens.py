"""Find the ids at which a Hugging Face checkpoint's answers begin and end."""

from pathlib import Path
from typing import Any

from srt.configs.json_file import JsonObject, read_json, read_json_if_there


def read_eos_token_ids(folder: Path, config: JsonObject, generation_config: JsonObject) -> tuple[int, ...]:
    """Every id that ends an answer: config.json's, generation_config.json's and the tokenizer's, in this order."""
    ids = [*_token_ids(config), *_token_ids(generation_config)]
    tokenizer_eos = _tokenizer_eos(folder)
    if tokenizer_eos is not None:
        ids.append(tokenizer_eos)
    return tuple(dict.fromkeys(ids))


def read_bos_token_id(config: JsonObject) -> int | None:
    """The id that config.json names."""
    return config.integer("bos_token_id") if config.has("bos_token_id") else None


def _token_ids(config: JsonObject) -> list[int]:
    value = config.values.get("eos_token_id")
    if value is None:
        return []
    ids = value if isinstance(value, list) else [value]
    if not all(isinstance(token_id, int) for token_id in ids):
        raise config.error(f"eos_token_id must be a whole number or a list of them, not {value!r}")
    return ids


def _tokenizer_eos(folder: Path) -> int | None:
    tokenizer_config = read_json_if_there(folder / "tokenizer_config.json")
    eos = tokenizer_config.values.get("eos_token")
    text = eos.get("content") if isinstance(eos, dict) else eos
    if not isinstance(text, str):
        return None
    decoder = tokenizer_config.child("added_tokens_decoder")
    if decoder is not None:
        for token_id, token in decoder.values.items():
            if isinstance(token, dict) and token.get("content") == text:
                return int(token_id)
    return _find_in_tokenizer(folder / "tokenizer.json", text)


def _find_in_tokenizer(path: Path, text: str) -> int | None:
    if not path.exists():
        return None
    tokenizer = read_json(path)
    added: list[dict[str, Any]] = tokenizer.values.get("added_tokens") or []
    for token in added:
        if token.get("content") == text:
            return int(token["id"])
    return None
