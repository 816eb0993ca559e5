"""`FastTokenizer`: the `Tokenizer` over the `tokenizers` package. Loads no torch.

Encoding lets other threads run meanwhile. Decoding is the incremental decoder fed all at once, so that a stream and
a whole text cannot differ.
"""

import re
from collections.abc import Sequence
from functools import partial

from tokenizers import Tokenizer as Backend

from srt.tokenizer.incremental_decoder import PieceDecoder, WindowDecoder
from srt.tokenizer.token_pieces import PieceRule, TokenPieces, piece_rule
from srt.tokenizer.tokenizer import IncrementalDecoder

_SURROGATE = re.compile("[\ud800-\udfff]")


class FastTokenizer:
    """Implements srt.tokenizer.tokenizer.Tokenizer."""

    def __init__(
        self,
        backend: Backend,
        *,
        bos_token: str | None = None,
        eos_token: str | None = None,
        chat_template: str | None = None,
    ) -> None:
        # A tokenizer.json may carry settings of its training or of batches of equal length: never what is wanted here.
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self.vocab_size = max(backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.bos_token = bos_token
        self.eos_token = eos_token
        self.bos_token_id = None if bos_token is None else backend.token_to_id(bos_token)
        self.eos_token_id = None if eos_token is None else backend.token_to_id(eos_token)
        self.chat_template = chat_template
        added = backend.get_added_tokens_decoder()
        self._special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        rule = piece_rule(backend)
        self._pieces = None if rule is None else _pieces_by_skip(backend, rule)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text. A lone surrogate is no character and becomes U+FFFD."""
        # The batch call, even for one text: unlike encode() it releases the interpreter lock, and it is twice as fast.
        encodings = self._backend.encode_batch_fast(
            [without_surrogates(text)], add_special_tokens=add_special_tokens
        )
        return encodings[0].ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of a whole sequence. Ids outside the vocabulary are left out."""
        if self._pieces is None:
            return self._backend.decode(token_ids, skip_special_tokens=skip_special_tokens)
        decoder = PieceDecoder(self._pieces[skip_special_tokens], at_sequence_start=True)
        return "".join(map(decoder.push, token_ids)) + decoder.finish()

    def token_bytes(self, token_id: int, *, skip_special_tokens: bool = False) -> bytes:
        """What one token is in the middle of a text; of a special token, its name, unless skipped. Else empty."""
        if self._pieces is None:
            return self._backend.decode([token_id], skip_special_tokens=skip_special_tokens).encode()
        piece = self._pieces[skip_special_tokens][token_id]
        return piece.encode() if isinstance(piece, str) else piece

    def incremental_decoder(
        self, *, prompt_tail: Sequence[int] = (), skip_special_tokens: bool = True
    ) -> IncrementalDecoder:
        """A decoder for an answer that follows `prompt_tail` (the last few ids of the prompt)."""
        if self._pieces is None:
            return WindowDecoder(
                partial(self._backend.decode, skip_special_tokens=skip_special_tokens),
                self._special_ids.__contains__ if skip_special_tokens else _never,
                prompt_tail,
            )
        return PieceDecoder(
            self._pieces[skip_special_tokens],
            at_sequence_start=self._shows_nothing(prompt_tail, skip_special_tokens),
        )

    def _shows_nothing(self, prompt_tail: Sequence[int], skip_special_tokens: bool) -> bool:
        """Whether no text stands before the answer: there is no prompt, or it is only a BOS that is not shown."""
        if not prompt_tail:
            return True
        return skip_special_tokens and list(prompt_tail) == [self.bos_token_id]


def without_surrogates(text: str) -> str:
    """The text as it can be encoded: lone surrogates, which JSON escapes can spell, become U+FFFD."""
    if text.isascii():
        return text
    return _SURROGATE.sub("\ufffd", text)


def _pieces_by_skip(backend: Backend, rule: PieceRule) -> dict[bool, TokenPieces]:
    return {skip: TokenPieces(backend, rule, skip_special_tokens=skip) for skip in (True, False)}


def _never(token_id: int) -> bool:
    return False
