"""`Tokenizer`, the interface: text to token ids and back. Loads no torch.

`srt.tokenizer.load.load_tokenizer(folder)` gives one; the fast implementation is over the `tokenizers` package.
"""

from collections.abc import Sequence
from typing import Protocol


class IncrementalDecoder(Protocol):
    """One request's answer, ids to text as they come. See srt/tokenizer/incremental_decoder.py."""

    def push(self, token_id: int) -> str:
        """Take one id; return the text it completed, possibly empty, never half a character."""
        ...

    def finish(self) -> str:
        """The text of bytes that never became a whole character (U+FFFD), once, at the end."""
        ...


class Tokenizer(Protocol):
    """Safe to use from several threads at once."""

    vocab_size: int  # ids are 0 … vocab_size − 1; may differ from the model's (padded) vocabulary
    eos_token_id: int | None
    bos_token_id: int | None
    bos_token: str | None
    eos_token: str | None
    chat_template: str | None

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text. Text may hold the special tokens' own spelling; it becomes them."""
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of a whole sequence."""
        ...

    def token_bytes(self, token_id: int, *, skip_special_tokens: bool = False) -> bytes:
        """What one token is in the middle of a text; of a special token, its name, unless skipped. Else empty."""
        ...

    def incremental_decoder(
        self, *, prompt_tail: Sequence[int] = (), skip_special_tokens: bool = True
    ) -> IncrementalDecoder:
        """A decoder for an answer that follows `prompt_tail` (the last few ids of the prompt)."""
        ...
