"""The grammar back end over the xgrammar package.

A compiled grammar travels as xgrammar's own JSON. Stop tokens are none of xgrammar's business here: they belong to the
request, and only whether the answer may end is asked.
"""

import time
from random import Random

import numpy as np

from srt.constrained.answer_grammar import bits_of
from srt.constrained.grammar import CompiledGrammar, GrammarMatcher, TokenBits, Vocabulary
from srt.constrained.grammar_check import MAX_WHITESPACE
from srt.constrained.grammar_spec import GrammarSpec
from srt.constrained.lean_xgrammar import xgrammar
from srt.errors import InvalidRequest

# A grammar is followed at random for this many tokens, in so much processor time. Usual ones take a few milliseconds
# for all; ambiguous ones, in which every text can be read in many ways, take ever longer for each.
TRIAL_TOKENS = 256
TRIAL_LIMIT_S = 2.0
# What xgrammar has for a character of a string with `minLength` or `maxLength`, and what JSON allows. In what a schema
# quotes, quotation marks are escaped once more.
_LAX_CHARACTER, _STRICT_CHARACTER = r"[^\"\\\r\n]", r"[^\0-\x1f\"\\\r\n]"
# It may quote the whole grammar.
LONGEST_REASON = 500


def compiler(vocabulary: Vocabulary) -> "XGrammarCompiler":
    """For the process that compiles."""
    return XGrammarCompiler(vocabulary)


def loader(vocabulary: Vocabulary) -> "XGrammarLoader":
    """For a scheduler."""
    return XGrammarLoader(vocabulary)


class XGrammarCompiler:
    """Implements GrammarCompiler."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = _tokenizer_info(vocabulary)
        self._text_bits = _text_bits(vocabulary)
        self._compiler = xgrammar.GrammarCompiler(self._tokens, max_threads=1, cache_enabled=False)

    def compile(self, spec: GrammarSpec) -> bytes:
        """Compile, and follow it for a while."""
        try:
            compiled = self._compile(spec)
        except (RuntimeError, ValueError, TypeError) as error:
            raise InvalidRequest(_reason(error), param=spec.kind) from None
        _try_out(XGrammar(compiled, self._text_bits).matcher(), num_words=len(self._text_bits), spec=spec)
        return compiled.serialize_json().encode()

    def _compile(self, spec: GrammarSpec) -> xgrammar.CompiledGrammar:
        match spec.kind:
            case "json_schema":
                return self._compiler.compile_grammar(
                    _strict(xgrammar.Grammar.from_json_schema(spec.text, max_whitespace_cnt=MAX_WHITESPACE))
                )
            case "regex":
                return self._compiler.compile_regex(spec.text)
            case "ebnf":
                return self._compiler.compile_grammar(spec.text)
            case "structural_tag":
                return self._compiler.compile_grammar(
                    _strict(xgrammar.Grammar.from_structural_tag(spec.text))
                )


class XGrammarLoader:
    """Implements GrammarLoader."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = _tokenizer_info(vocabulary)
        self._text_bits = _text_bits(vocabulary)

    def load(self, payload: bytes) -> CompiledGrammar:
        """Out of xgrammar's JSON."""
        try:
            compiled = xgrammar.CompiledGrammar.deserialize_json(payload.decode(), self._tokens)
        except RuntimeError as error:
            raise ValueError(_reason(error)) from error
        return XGrammar(compiled, self._text_bits)


class XGrammar:
    """Implements CompiledGrammar."""

    def __init__(self, compiled: xgrammar.CompiledGrammar, text_bits: TokenBits) -> None:
        self._compiled = compiled
        self._text_bits = text_bits

    def matcher(self) -> GrammarMatcher:
        """At the beginning."""
        return XGrammarMatcher(self._compiled, self._text_bits)


class XGrammarMatcher:
    """Implements GrammarMatcher."""

    def __init__(self, compiled: xgrammar.CompiledGrammar, text_bits: TokenBits) -> None:
        self._text_bits = text_bits
        self._matcher = xgrammar.GrammarMatcher(compiled)

    @property
    def is_complete(self) -> bool:
        """Whether the answer may end here."""
        return bool(self._matcher.is_completed())

    def fill(self, bits: TokenBits) -> None:
        """Tokens of text that may come next."""
        self._matcher.fill_next_token_bitmask(bits.reshape(1, -1))
        # Where everything may follow, it sets all bits there are, also those of no token.
        bits &= self._text_bits

    def advance(self, token_id: int) -> bool:
        """Take one token."""
        return bool(self._matcher.accept_token(token_id))

    def advance_text(self, text: bytes) -> bool:
        """Take a text."""
        return bool(self._matcher.accept_string(text))


def _strict(grammar: xgrammar.Grammar) -> xgrammar.Grammar:
    """With strings of a certain length as strict as all others."""
    text = str(grammar)
    if _LAX_CHARACTER not in text:
        return grammar
    return xgrammar.Grammar.from_ebnf(text.replace(_LAX_CHARACTER, _STRICT_CHARACTER))


def _tokenizer_info(vocabulary: Vocabulary) -> xgrammar.TokenizerInfo:
    return xgrammar.TokenizerInfo(
        list(vocabulary.token_texts), xgrammar.VocabType.RAW, vocab_size=vocabulary.size, stop_token_ids=[]
    )


def _text_bits(vocabulary: Vocabulary) -> TokenBits:
    texts = vocabulary.token_texts
    return bits_of((token_id for token_id, text in enumerate(texts) if text), vocabulary.num_words)


def _try_out(matcher: GrammarMatcher, *, num_words: int, spec: GrammarSpec) -> None:
    """Raises InvalidRequest if nothing matches the grammar, or following it takes too long."""
    bits, choice, spent_s = np.zeros(num_words, np.int32), Random(0), 0.0
    for num_tokens in range(TRIAL_TOKENS):
        started = time.thread_time()
        matcher.fill(bits)
        allowed = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
        if len(allowed) == 0:
            if num_tokens == 0 and not matcher.is_complete:
                raise InvalidRequest("nothing can match this grammar", param=spec.kind)
            return
        matcher.advance(int(allowed[choice.randrange(len(allowed))]))
        spent_s += time.thread_time() - started
        if spent_s > TRIAL_LIMIT_S:
            raise InvalidRequest(
                "this grammar is too ambiguous: following it takes too long", param=spec.kind
            )


def _reason(error: Exception) -> str:
    """xgrammar's message without the time and the place in its source."""
    message = str(error).strip()
    _, is_placed, rest = message.rpartition(".cc:")
    if is_placed:
        message = rest.lstrip("0123456789: ")
    return message[:LONGEST_REASON] or type(error).__name__
