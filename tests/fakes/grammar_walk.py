"""Random texts of a real grammar, over a vocabulary of single bytes: what a model without any sense would write."""

import random

import numpy as np

from srt.constrained.grammar import CompiledGrammar, Vocabulary
from srt.constrained.grammar_spec import GrammarSpec
from srt.constrained.xgrammar_backend import compiler, loader

BYTES = Vocabulary(token_texts=[bytes([byte]) for byte in range(256)] + [b""], size=257)
COMPILER, LOADER = compiler(BYTES), loader(BYTES)
# Rather these, so that texts are short and numbers are numbers.
LIKELY = frozenset(b"0123456789abcxyz{}[],:.-+T/@~")
LONGEST = 200


def compiled(spec: GrammarSpec) -> CompiledGrammar:
    """Compiled, sent and read again."""
    return LOADER.load(COMPILER.compile(spec))


def allows(grammar: CompiledGrammar, text: str) -> bool:
    """Whether this is one of its texts."""
    matcher = grammar.matcher()
    return all(matcher.advance(byte) for byte in text.encode()) and matcher.is_complete


def random_texts(grammar: CompiledGrammar, count: int) -> list[str]:
    """As many as came to an end within reason."""
    rng = random.Random(0)
    return [text for text in (_walk(grammar, rng) for _ in range(count)) if text is not None]


def _walk(grammar: CompiledGrammar, rng: random.Random) -> str | None:
    matcher, bits, text = grammar.matcher(), np.zeros(BYTES.num_words, np.int32), b""
    while len(text) < LONGEST:
        matcher.fill(bits)
        allowed = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
        if matcher.is_complete and (not allowed or rng.random() < 0.5):
            return text.decode()
        closing = [byte for byte in allowed if byte in b'"}],'] if len(text) > 30 else []
        byte = rng.choice(closing or [byte for byte in allowed if byte in LIKELY] or allowed)
        assert matcher.advance(byte)
        text += bytes([byte])
    return None
