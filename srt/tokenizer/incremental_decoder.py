"""One request's answer, ids to text as they come: never half a character, never more held back than one.

The text of all `push()`es and `finish()` is the answer's own bytes, decoded as UTF-8 once: what cannot be a character
is U+FFFD. Where the pieces are cut changes nothing. An answer that follows a prompt keeps its leading space; only the
start of a sequence strips one. Costs a dictionary look-up a token.
"""

import codecs
from collections.abc import Callable, Sequence

from srt.tokenizer.token_pieces import TokenPieces

REPLACEMENT = "\ufffd"
# A character has at most four bytes, and a token at least one: behind that many, U+FFFD is there to stay.
MAX_TOKENS_OF_A_CHARACTER = 4


class PieceDecoder:
    """For tokenizers whose tokens are pieces of text or bytes by themselves (srt/tokenizer/token_pieces.py)."""

    __slots__ = ("_at_first_token", "_is_plain", "_num_to_strip", "_pieces", "_utf8")

    def __init__(self, pieces: TokenPieces, *, at_sequence_start: bool) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._at_first_token = at_sequence_start and bool(pieces.rule.first_token_drops)
        self._num_to_strip = pieces.rule.num_stripped if at_sequence_start else 0
        # Nothing is held back or still to be stripped: a piece of text is the next piece of the answer.
        self._is_plain = not self._at_first_token and not self._num_to_strip

    def push(self, token_id: int) -> str:
        """Take one id; return the text it completed."""
        piece = self._pieces[token_id]
        if self._is_plain and piece.__class__ is str:
            return piece
        return self._push_slowly(token_id, piece)

    def finish(self) -> str:
        """U+FFFD if the answer ends inside a character."""
        self._is_plain = True
        return self._strip(self._utf8.decode(b"", final=True))

    def _push_slowly(self, token_id: int, piece: str | bytes) -> str:
        if self._at_first_token and (token := self._pieces.spelling(token_id)) is not None:
            piece = self._pieces.first_text(token)
            self._at_first_token = False
        text = self._utf8.decode(piece.encode() if isinstance(piece, str) else piece)
        text = self._strip(text)
        pending = self._utf8.getstate()[0]
        self._is_plain = not pending and not self._num_to_strip and not self._at_first_token
        return text

    def _strip(self, text: str) -> str:
        while text and self._num_to_strip:
            if text[0] != self._pieces.rule.stripped:
                self._num_to_strip = 0
                break
            text = text[1:]
            self._num_to_strip -= 1
        return text


class WindowDecoder:
    """For any other tokenizer: decode the last few tokens with and without the new one, and take the difference.

    Exact for tokenizers whose text only grows at its end. The window holds what is not settled, so time is linear.
    """

    __slots__ = ("_decode", "_is_skipped", "_num_sent", "_num_settled", "_settled_text", "_window")

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        is_skipped: Callable[[int], bool],
        prompt_tail: Sequence[int],
    ) -> None:
        """`decode` gives the text of a sequence; `is_skipped`, whether an id is left out of it."""
        self._decode = decode
        self._is_skipped = is_skipped
        self._window = [token_id for token_id in prompt_tail if not is_skipped(token_id)]
        self._num_settled = 0  # tokens of the window whose text is out
        self._num_sent = 0  # characters of the window's text that are out
        self._settle()

    def push(self, token_id: int) -> str:
        """Take one id; return the text it completed."""
        if self._is_skipped(token_id):
            return ""
        self._window.append(token_id)
        text = self._decode(self._window)
        num_open = len(self._window) - self._num_settled
        # A trailing U+FFFD may be half a character, unless it has waited for longer than one can take.
        ready = text if num_open > MAX_TOKENS_OF_A_CHARACTER else text.rstrip(REPLACEMENT)
        new_text = ready[self._num_sent :]
        self._num_sent = max(self._num_sent, len(ready))
        if len(ready) < len(text):
            return new_text
        if text == self._settled_text != "":
            # No text at all: such a token must not push out the context that the next one needs.
            del self._window[self._num_settled :]
        else:
            del self._window[: self._num_settled]
            self._settle()
        return new_text

    def finish(self) -> str:
        """What was held back."""
        return self._decode(self._window)[self._num_sent :] if self._window else ""

    def _settle(self) -> None:
        """The window's text is out; from here on it is only context."""
        self._num_settled = len(self._window)
        # Some decoders of the `tokenizers` package crash on nothing.
        self._settled_text = self._decode(self._window) if self._window else ""
        self._num_sent = len(self._settled_text)
