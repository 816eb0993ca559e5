"""Small real tokenizers of every kind, built on the spot: backends of the `tokenizers` package."""

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "the quick brown fox jumps over the lazy dog, and then the dog barks at the fox",
    "Größe, café, naïve: 世界 こんにちは 🎉🎊 👩‍👩‍👧 Привет мир",
    "def f(x):\n    return x + 1\n\n\n",
]
SPECIAL = AddedToken("<|end|>", special=True, normalized=False)
PLAIN_ADDED = AddedToken("<think>", special=False, normalized=False)


def byte_level_bpe() -> Tokenizer:
    """As GPT-2, Llama 3 and Qwen: every byte has a token, so characters are split at will."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _with_added(tokenizer)


def sentencepiece(decoder: decoders.Decoder | None = None) -> Tokenizer:
    """As Llama 2 and Mistral: "▁" for spaces, unknown characters byte by byte, one leading space too many."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "a", "b", "c", "é", "世", "\ufffd", "▁a", "▁b", "ab", "▁ab", "▁▁", "bc"]
    merges = [("▁", "a"), ("▁", "b"), ("a", "b"), ("▁a", "b"), ("▁", "▁"), ("b", "c")]
    model = models.BPE(
        {piece: index for index, piece in enumerate(pieces)}, merges, unk_token="<unk>", byte_fallback=True
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoder or llama_decoder()
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return _with_added(tokenizer)


def llama_decoder() -> decoders.Decoder:
    return decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )


def metaspace_decoder(prepend_scheme: str = "always") -> decoders.Decoder:
    return decoders.Sequence(
        [decoders.Metaspace("▁", prepend_scheme), decoders.ByteFallback(), decoders.Fuse()]
    )


def gemma_decoder() -> decoders.Decoder:
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


def word_piece() -> Tokenizer:
    """As BERT: "##" joins, every other token brings a space."""
    pieces = ["[UNK]", "play", "##ing", "##ed", "world", "!", "\ufffd", ""]
    tokenizer = Tokenizer(
        models.WordPiece({piece: index for index, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return _with_added(tokenizer)


def word_end_bpe() -> Tokenizer:
    """As the first GPT: a token ends its word with "</w>", which is a space unless the text ends there."""
    pieces = ["a", "b", "a</w>", "b</w>", "ab</w>"]
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, []))
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    return _with_added(tokenizer)


def _with_added(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens([SPECIAL])
    tokenizer.add_tokens([PLAIN_ADDED])
    return tokenizer
