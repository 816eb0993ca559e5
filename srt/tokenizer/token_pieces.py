"""`TokenPieces`: what each token id stands for, as text or as bytes of a character; filled as ids are met.

Covers the tokenizers of nearly every language model: byte-level BPE, and SentencePiece-style ones (spaces spelled "▁",
unknown characters as single bytes). `piece_rule` says whether a tokenizer is one of them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as Backend

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRule:
    """How a tokenizer spells its tokens.

    `replacements` turn a token's spelling into text, in order. At the start of a sequence, and only there, up to
    `num_stripped` characters `stripped` go; `first_token_drops` goes from the first token, wherever it stands there.
    """

    byte_level: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    byte_fallback: bool = False
    stripped: str = ""
    num_stripped: int = 0
    first_token_drops: str = ""


def piece_rule(backend: Backend) -> PieceRule | None:
    """The rule of a tokenizer, from its decoder; None if its text cannot be told token by token."""
    if backend.decoder is None:
        return None
    stages = _flatten(json.loads(backend.decoder.__getstate__()))
    stages = (
        [stage for stage in stages if stage["type"] != "Fuse"] if _fuse_changes_nothing(stages) else stages
    )
    if [stage["type"] for stage in stages] == ["ByteLevel"]:
        return PieceRule(byte_level=True)
    return _sentencepiece_rule(stages)


def _flatten(decoder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if decoder["type"] != "Sequence":
        return [decoder]
    return [stage for inner in decoder["decoders"] for stage in _flatten(inner)]


def _fuse_changes_nothing(stages: Sequence[Mapping[str, Any]]) -> bool:
    """Joining tokens only matters to what comes behind and looks at their ends."""
    types = [stage["type"] for stage in stages]
    return types.count("Fuse") == 0 or types[types.index("Fuse") + 1 :] == []


def _sentencepiece_rule(stages: Sequence[Mapping[str, Any]]) -> PieceRule | None:
    """[Replace | Metaspace]*, ByteFallback?, [Fuse, Strip at the start]?; anything else is None."""
    replacements: list[tuple[str, str]] = []
    first_token_drops = ""
    rest = list(stages)
    while rest and rest[0]["type"] in ("Replace", "Metaspace"):
        stage = rest.pop(0)
        if stage["type"] == "Metaspace":
            if replacements and stage["prepend_scheme"] != "never":
                return None  # what the first token drops would have to be looked for between two replacements
            first_token_drops = "" if stage["prepend_scheme"] == "never" else stage["replacement"]
            replacements.append((stage["replacement"], " "))
        elif "String" in stage["pattern"] and stage["pattern"]["String"]:
            replacements.append((stage["pattern"]["String"], stage["content"]))
        else:
            return None
    byte_fallback = bool(rest) and rest[0]["type"] == "ByteFallback"
    if byte_fallback:
        rest.pop(0)
    stripped, num_stripped = "", 0
    if [stage["type"] for stage in rest] == ["Fuse", "Strip"] and rest[1]["stop"] == 0:
        stripped, num_stripped = rest[1]["content"], rest[1]["start"]
        rest = []
    if rest:
        return None
    return PieceRule(
        replacements=tuple(replacements),
        byte_fallback=byte_fallback,
        stripped=stripped,
        num_stripped=num_stripped,
        first_token_drops=first_token_drops,
    )


class TokenPieces(dict[int, str | bytes]):
    """id → its text if that is whole characters, otherwise its bytes. Any id may be asked for.

    Special tokens are empty when `skip_special_tokens`; so are ids that the tokenizer does not know. Filling is
    idempotent, so threads may share one.
    """

    def __init__(self, backend: Backend, rule: PieceRule, *, skip_special_tokens: bool) -> None:
        super().__init__()
        self.rule = rule
        self._backend = backend
        added = backend.get_added_tokens_decoder().values()
        self._skipped = {token.content for token in added if token.special} if skip_special_tokens else set()

    def __missing__(self, token_id: int) -> str | bytes:
        token = self.spelling(token_id)
        piece = "" if token is None else self._piece(token)
        self[token_id] = piece
        return piece

    def spelling(self, token_id: int) -> str | None:
        """The token as the vocabulary has it; None if it is left out of the text."""
        token = self._backend.id_to_token(token_id) if 0 <= token_id < 1 << 32 else None
        return None if token in self._skipped else token

    def first_text(self, token: str) -> str | bytes:
        """The piece of a token that opens a sequence."""
        return self._piece(
            token.replace(self.rule.first_token_drops, "") if self.rule.first_token_drops else token
        )

    def _piece(self, token: str) -> str | bytes:
        if self.rule.byte_level:
            return _whole_or_bytes(_bytes_of_byte_level(token))
        for old, new in self.rule.replacements:
            token = token.replace(old, new)
        if self.rule.byte_fallback and (match := _BYTE_TOKEN.fullmatch(token)):
            return _whole_or_bytes(bytes([int(match[1], 16)]))
        return token


def _whole_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _bytes_of_byte_level(token: str) -> bytes:
    try:
        return bytes(map(_BYTE_OF_CHARACTER.__getitem__, token))
    except KeyError:
        return token.encode()  # an added token, spelled in plain text


def _byte_level_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for characters from U+0100 on."""
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in itself]
    alphabet = {chr(byte): byte for byte in itself}
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return alphabet


_BYTE_OF_CHARACTER = _byte_level_alphabet()
