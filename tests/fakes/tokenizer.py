"""A `Tokenizer` whose tokens are bytes: an id below 256 is that byte, the few above are special tokens.

Every text has exactly one encoding and every id sequence an obvious text, so a test can read its own numbers.
"""

import codecs
import re
from collections.abc import Sequence

BOS_ID, EOS_ID, IM_START_ID, IM_END_ID = 256, 257, 258, 259
SPECIAL_TOKENS = {"<s>": BOS_ID, "</s>": EOS_ID, "<|im_start|>": IM_START_ID, "<|im_end|>": IM_END_ID}
VOCAB_SIZE = 260
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_BYTES_OF_ID = [bytes([byte]) for byte in range(256)] + [text.encode() for text in SPECIAL_TOKENS]
_SPECIAL = re.compile("(" + "|".join(re.escape(text) for text in SPECIAL_TOKENS) + ")")


class ByteTokenizer:
    """Implements srt.tokenizer.tokenizer.Tokenizer. With `add_bos` it encodes a BOS first, like Llama's."""

    def __init__(self, *, add_bos: bool = False, chat_template: str | None = CHAT_TEMPLATE) -> None:
        self.vocab_size = VOCAB_SIZE
        self.eos_token_id: int | None = EOS_ID
        self.bos_token_id: int | None = BOS_ID
        self.bos_token: str | None = "<s>"
        self.eos_token: str | None = "</s>"
        self.chat_template = chat_template
        self._add_bos = add_bos

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        ids = [BOS_ID] if add_special_tokens and self._add_bos else []
        for piece in _SPECIAL.split(text):
            if piece in SPECIAL_TOKENS:
                ids.append(SPECIAL_TOKENS[piece])
            else:
                # A lone surrogate is no character; it becomes U+FFFD, as in the real tokenizer.
                ids.extend(re.sub("[\ud800-\udfff]", "\ufffd", piece).encode())
        return ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        decoder = self.incremental_decoder(skip_special_tokens=skip_special_tokens)
        return "".join(map(decoder.push, token_ids)) + decoder.finish()

    def token_bytes(self, token_id: int, *, skip_special_tokens: bool = False) -> bytes:
        if token_id >= (256 if skip_special_tokens else VOCAB_SIZE):
            return b""
        return _BYTES_OF_ID[token_id]

    def incremental_decoder(
        self, *, prompt_tail: Sequence[int] = (), skip_special_tokens: bool = True
    ) -> "ByteDecoder":
        """What came before changes nothing here: every answer is decoded by itself."""
        return ByteDecoder(skip_special_tokens)


class ByteDecoder:
    """Bytes to text as they come, never half a character."""

    def __init__(self, skip_special_tokens: bool) -> None:
        self._skip_special_tokens = skip_special_tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        if token_id >= VOCAB_SIZE or (token_id >= 256 and self._skip_special_tokens):
            return ""
        return self._utf8.decode(_BYTES_OF_ID[token_id])

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)
