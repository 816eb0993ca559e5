"""A grammar back end without a grammar: so many letters out of a few, which a test can check at a glance."""

import msgspec
import numpy as np

from srt.constrained.answer_grammar import bits_of
from srt.constrained.grammar import TokenBits


class FakeRule(msgspec.Struct, frozen=True, kw_only=True):
    """`least` to `most` of these letters, each of which is a token."""

    letters: str
    least: int = 0
    most: int = 1000

    def payload(self) -> bytes:
        """What travels."""
        return msgspec.json.encode(self)

    @property
    def ids(self) -> list[int]:
        """The letters as tokens."""
        return list(self.letters.encode())


class FakeGrammarLoader:
    """Implements srt.constrained.grammar.GrammarLoader for a vocabulary of `vocab_size`."""

    def __init__(self, vocab_size: int) -> None:
        self._num_words = -(-vocab_size // 32)

    def load(self, payload: bytes) -> "FakeGrammar":
        return FakeGrammar(msgspec.json.decode(payload, type=FakeRule), self._num_words)


class FakeGrammar:
    """Implements CompiledGrammar."""

    def __init__(self, rule: FakeRule, num_words: int) -> None:
        self._rule = rule
        self._bits = bits_of(rule.ids, num_words)

    def matcher(self) -> "FakeMatcher":
        return FakeMatcher(self._rule, self._bits)


class FakeMatcher:
    """Implements GrammarMatcher."""

    def __init__(self, rule: FakeRule, bits: TokenBits) -> None:
        self._rule = rule
        self._own_bits = bits
        self._num_taken = 0

    @property
    def is_complete(self) -> bool:
        return self._num_taken >= self._rule.least

    def fill(self, bits: TokenBits) -> None:
        bits[:] = self._own_bits if self._num_taken < self._rule.most else np.zeros_like(self._own_bits)

    def advance(self, token_id: int) -> bool:
        if token_id not in self._rule.ids or self._num_taken == self._rule.most:
            return False
        self._num_taken += 1
        return True

    def advance_text(self, text: bytes) -> bool:
        return all(self.advance(byte) for byte in text)
