"""What a grammar back end gives: `GrammarCompiler` in a process of its own, `GrammarLoader` in the schedulers.

A compiled grammar travels as bytes that only its own back end reads. Both ends are made from the same `Vocabulary`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from srt.constrained.grammar_spec import GrammarSpec

# One bit a token, 32 in each number, the lowest first. 1: the token may come next.
TokenBits = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What each of a model's `size` tokens is in a text. Empty: it never stands in one (special tokens, padding)."""

    token_texts: Sequence[bytes]
    size: int

    @staticmethod
    def of(
        token_text: Callable[[int], bytes], *, num_tokens: int, size: int, never: Collection[int] = ()
    ) -> "Vocabulary":
        """Of a tokenizer with `num_tokens` and a model with `size`: what only one of them has is no text.

        Nor are the tokens of `never`: those that end every text.
        """
        known = [
            b"" if token_id in never else token_text(token_id) for token_id in range(min(num_tokens, size))
        ]
        return Vocabulary(token_texts=known + [b""] * (size - len(known)), size=size)

    @property
    def num_words(self) -> int:
        """Numbers in `TokenBits`."""
        return -(-self.size // 32)


class GrammarCompiler(Protocol):
    """May take any time and memory, and may crash: whoever compiles must be expendable."""

    def compile(self, spec: GrammarSpec) -> bytes:
        """The compiled grammar. Raises InvalidRequest for one that is wrong, or that nothing matches."""
        ...


class GrammarMatcher(Protocol):
    """One answer on its way through a grammar."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer may end here. It may be that it can go on, too."""
        ...

    def fill(self, bits: TokenBits) -> None:
        """Set `bits` (num_words,) to the tokens of text that may come next."""
        ...

    def advance(self, token_id: int) -> bool:
        """Take one token of text. False, and nothing has changed, if it may not come next."""
        ...

    def advance_text(self, text: bytes) -> bool:
        """The same for a text that is no whole token."""
        ...


class CompiledGrammar(Protocol):
    """What any number of answers follow."""

    def matcher(self) -> GrammarMatcher:
        """A matcher at the beginning."""
        ...


class GrammarLoader(Protocol):
    """Compiled grammars out of what GrammarCompiler made. Used by one thread at a time."""

    def load(self, payload: bytes) -> CompiledGrammar:
        """Raises ValueError for bytes that are no grammar of this vocabulary."""
        ...


class GrammarBackend(Protocol):
    """A module of a back end."""

    def compiler(self, vocabulary: Vocabulary) -> GrammarCompiler:
        """For the process that compiles."""
        ...

    def loader(self, vocabulary: Vocabulary) -> GrammarLoader:
        """For a scheduler."""
        ...
