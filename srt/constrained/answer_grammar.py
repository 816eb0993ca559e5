"""`AnswerGrammar`: what may come next in one answer, and whether it is whole.

Lives as long as its request: a retraction changes nothing here. The grammar says which tokens of text may follow; stop
tokens are the request's, and may follow only where the answer may end.
"""

import logging
from collections.abc import Callable, Iterable

import numpy as np

from srt.constrained.grammar import CompiledGrammar, GrammarMatcher, TokenBits
from srt.constrained.reasoning_end import ReasoningEnd

logger = logging.getLogger(__name__)


class AnswerGrammar:
    """One answer's. `compiled` waits until the grammar is there; it is asked when the grammar is first needed.

    With a `reasoning_end` everything but an end is allowed until that is found: an answer that ends while the model
    still thinks has no form.
    """

    def __init__(
        self,
        compiled: Callable[[], CompiledGrammar],
        *,
        num_words: int,
        stop_token_ids: Iterable[int],
        reasoning_end: ReasoningEnd | None = None,
    ) -> None:
        self._compiled = compiled
        self._reasoning_end = reasoning_end
        self._matcher: GrammarMatcher | None = None
        self._bits: TokenBits = np.zeros(num_words, np.int32)
        self._stop_bits = bits_of(stop_token_ids, num_words)
        self.is_whole = False
        """Whether the answer matches the grammar and nothing but its end may follow."""
        self.is_broken = False
        """Whether the answer does not match, or never can: our fault, and its end."""

    @property
    def allowed(self) -> TokenBits:
        """What may come next. Valid until the next `push`."""
        if self._reasoning_end is not None:
            return ~self._stop_bits
        if self._matcher is None and not self.is_broken:
            self._begin(b"")
        return self._bits

    def push(self, token_id: int) -> None:
        """The next token of text. No stop token: an answer ends with it, and it is no text."""
        if self._reasoning_end is not None:
            behind = self._reasoning_end.push(token_id)
            if behind is not None:
                self._reasoning_end = None
                self._begin(behind)
            return
        if self._matcher is None and not self.is_broken:
            self._begin(b"")
        if self._matcher is None or not self._matcher.advance(token_id):
            self._break()
        else:
            self._look_ahead(self._matcher)

    def _begin(self, text: bytes) -> None:
        """At the beginning, or behind the first `text` of the answer, which came with the marker's last token."""
        try:
            self._matcher = self._compiled().matcher()
        except ValueError:
            logger.exception("a compiled grammar cannot be read")
            self._break()
            return
        if text.strip() and not self._matcher.advance_text(text.lstrip()):
            self._break()
        else:
            self._look_ahead(self._matcher)

    def _look_ahead(self, matcher: GrammarMatcher) -> None:
        matcher.fill(self._bits)
        # A stop token that is also a piece of text ends the answer, so it may not come earlier.
        self._bits &= ~self._stop_bits
        can_go_on = bool(self._bits.any())
        if matcher.is_complete:
            self.is_whole = not can_go_on
            self._bits |= self._stop_bits
        elif not can_go_on:
            self._break()

    def _break(self) -> None:
        self.is_broken = True
        self._bits[:] = 0


def bits_of(token_ids: Iterable[int], num_words: int) -> TokenBits:
    """These tokens and no others."""
    bits = np.zeros(num_words * 32, np.bool_)
    bits[list(token_ids)] = True
    return np.packbits(bits, bitorder="little").view(np.int32)
