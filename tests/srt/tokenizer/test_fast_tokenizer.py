import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import transformers

from srt.tokenizer.fast_tokenizer import FastTokenizer
from srt.tokenizer.tokenizer import Tokenizer
from tests.fakes import small_tokenizers as small

TEXTS = [
    "",
    " ",
    "\n",
    "\n\n\n",
    "\t\tindented\n    four spaces\n",
    "        eight spaces",
    "trailing spaces    ",
    "a  b   c    d     e",
    "\r\nwindows\r\n",
    "\u00a0no-break\u2003em\u3000ideographic",
    "Hello, world!",
    "Hello,world!It's we're I'll you'd they've",
    "IT'S WE'RE",
    "The quick brown fox jumps over the lazy dog.",
    "0", "1234567890", "3.14159265", "1,000,000", "2024-02-29T12:34:56Z", "x =  12", "  42", "v1.2.3-rc4", "0xDEADBEEF",
    "def f(x):\n    return [i ** 2 for i in range(x) if i % 2 == 0]\n",
    "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 1 << 3); return 0; }",
    "SELECT * FROM t WHERE a >= 1 AND b LIKE '%x%';",
    '{"key": [1, 2, {"nested": null}], "s": "\\u00e9"}',
    "https://example.com/path?query=1&other=two#frag",
    "日本語のテキストです。",
    "这是中文文本，包含标点符号。",
    "한국어 텍스트",
    "日本語とEnglishと中文 mixed 文字",
    "Привет, мир! Как дела?",
    "مرحبا بالعالم",
    "שלום עולם",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "Ελληνικά και Ægir ñandú Straße İstanbul",
    "🎉🎊🥳",
    "👩‍👩‍👧‍👦 family 🏳️‍🌈 flag 👍🏽 skin",
    "e\u0301 combining vs é composed",
    "zero\u200bwidth\u200djoiner\ufeffbom",
    "∑∏∫√∞≈≠≤≥ ½⅓ ⁵ ₂ Ⅷ",
    "\ufffd genuine replacement \ufffd",
    "control \x00 \x01 \x1b[31m \x7f",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|>",
    "text<|im_end|>glued<|im_end|>",
    "<|im_end",
    "<repo_name>x<file_sep>",
    "<|im_start|> spaced <|im_end|> ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "supercalifragilisticexpialidocious",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒻𝓊𝓃",
    "line one\n\nline three\n\n\n\nline seven",
    "mixed\u0301 スクリプト и English 123 العربية 🎉\n\tend",
]  # fmt: skip


def test_fifty_varied_texts_get_the_ids_that_transformers_gives_them(
    smollm2: FastTokenizer, reference: transformers.PreTrainedTokenizerBase
) -> None:
    assert len(TEXTS) >= 50
    for text in TEXTS:
        assert smollm2.encode(text) == reference(text)["input_ids"], repr(text)


def test_texts_survive_encoding_and_decoding(
    smollm2: FastTokenizer, reference: transformers.PreTrainedTokenizerBase
) -> None:
    for text in TEXTS:
        ids = smollm2.encode(text)
        assert smollm2.decode(ids, skip_special_tokens=False) == text
        assert smollm2.decode(ids) == reference.decode(ids, skip_special_tokens=True)


def test_the_default_models_special_tokens_are_its_own(smollm2: FastTokenizer) -> None:
    interface: Tokenizer = smollm2
    assert (interface.bos_token, interface.bos_token_id) == ("<|im_start|>", 1)
    assert (interface.eos_token, interface.eos_token_id) == ("<|im_end|>", 2)
    assert interface.vocab_size == 49152


def test_a_lone_surrogate_becomes_a_replacement_character(smollm2: FastTokenizer) -> None:
    assert smollm2.encode("hi \ud83d there") == smollm2.encode("hi \ufffd there")


def test_settings_of_training_do_not_leak_in() -> None:
    backend = small.byte_level_bpe()
    backend.enable_truncation(max_length=3)
    backend.enable_padding(length=64, pad_token="<|end|>")
    tokenizer = FastTokenizer(backend)
    text = "a text of more than three tokens, and of fewer than sixty-four"
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


def test_special_tokens_are_added_only_when_asked_for() -> None:
    from tokenizers import processors

    backend = small.sentencepiece()
    bos = backend.token_to_id("<s>")
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", bos)])
    tokenizer = FastTokenizer(backend, bos_token="<s>")
    assert tokenizer.encode("a") == [bos, *tokenizer.encode("a", add_special_tokens=False)]
    assert tokenizer.bos_token_id == bos


def test_ids_outside_the_vocabulary_are_no_text(smollm2: FastTokenizer) -> None:
    ids = smollm2.encode("ab")
    assert smollm2.decode([49152, *ids, 10**6, -1]) == "ab"


def test_the_bytes_of_single_tokens_joined_are_the_text(smollm2: FastTokenizer) -> None:
    for text in TEXTS:
        token_ids = smollm2.encode(text, add_special_tokens=False)
        assert b"".join(map(smollm2.token_bytes, token_ids)) == text.encode()
    assert smollm2.token_bytes(2) == b"<|im_end|>"
    assert smollm2.token_bytes(2, skip_special_tokens=True) == b""


def test_the_vocabulary_counts_added_tokens_and_holes() -> None:
    backend = small.byte_level_bpe()
    assert FastTokenizer(backend).vocab_size == backend.token_to_id("<think>") + 1


def test_many_threads_get_the_ids_that_one_gets(smollm2: FastTokenizer) -> None:
    expected = [smollm2.encode(text) for text in TEXTS]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(smollm2.encode, TEXTS * 20)) == expected * 20


def test_other_threads_run_while_a_long_text_is_encoded(smollm2: FastTokenizer) -> None:
    ended = threading.Event()

    def encode() -> None:
        smollm2.encode("some words and 123 numbers. " * 20_000)
        ended.set()

    thread = threading.Thread(target=encode)
    thread.start()
    num_turns = 0
    while not ended.wait(0.001):
        num_turns += 1
    thread.join()
    # With the interpreter lock held there would be one turn, before it starts, and perhaps one more.
    assert num_turns > 3


@pytest.mark.parametrize("skip", [True, False])
def test_a_plain_added_token_is_text_either_way(skip: bool) -> None:
    tokenizer = FastTokenizer(small.byte_level_bpe())
    assert tokenizer.decode(tokenizer.encode("<think>x"), skip_special_tokens=skip) == "<think>x"
