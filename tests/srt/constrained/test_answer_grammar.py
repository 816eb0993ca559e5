"""What may come next in one answer: the grammar's tokens, the request's stop tokens, and from where on."""

import numpy as np
import pytest

from srt.constrained.answer_grammar import AnswerGrammar, bits_of
from srt.constrained.grammar import CompiledGrammar, Vocabulary
from srt.constrained.grammar_spec import GrammarSpec
from srt.constrained.reasoning_end import ReasoningEnd
from srt.sampling.token_mask import is_allowed
from tests.fakes.grammar_walk import BYTES, compiled

STOP = 256


def answer(
    regex: str, *, begins_after: str | None = None, stop_ids: tuple[int, ...] = (STOP,)
) -> AnswerGrammar:
    grammar = compiled(GrammarSpec(kind="regex", text=regex))
    return AnswerGrammar(
        lambda: grammar,
        num_words=BYTES.num_words,
        stop_token_ids=stop_ids,
        reasoning_end=None
        if begins_after is None
        else ReasoningEnd(begins_after, BYTES.token_texts.__getitem__),
    )


def allowed(grammar: AnswerGrammar) -> str:
    """Characters that may come; a dot for a stop token."""
    bits = grammar.allowed
    ids = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
    assert all(is_allowed(bits, token_id) for token_id in ids)
    return "".join("." if token_id == STOP else chr(token_id) for token_id in ids)


def push(grammar: AnswerGrammar, text: str) -> None:
    for byte in text.encode():
        grammar.push(byte)


def test_stop_tokens_may_come_where_the_answer_may_end_and_only_there() -> None:
    grammar = answer("[a-c]{2,3}")
    assert allowed(grammar) == "abc"
    push(grammar, "ab")
    assert (allowed(grammar), grammar.is_whole) == ("abc.", False)
    push(grammar, "c")
    assert (allowed(grammar), grammar.is_whole) == (".", True)


def test_a_stop_token_that_is_also_text_only_ends_the_answer() -> None:
    grammar = answer("[a-c]{2,3}", stop_ids=(ord("b"),))
    assert allowed(grammar) == "ac"
    push(grammar, "aa")
    assert allowed(grammar) == "abc"


def test_without_stop_tokens_the_answer_goes_on_as_long_as_it_can() -> None:
    grammar = answer("a{1,2}", stop_ids=())
    push(grammar, "a")
    assert (allowed(grammar), grammar.is_whole) == ("a", False)
    push(grammar, "a")
    assert (allowed(grammar), grammar.is_whole) == ("", True)


def test_a_token_that_may_not_come_breaks_the_answer() -> None:
    grammar = answer("ab")
    assert allowed(grammar) == "a"
    push(grammar, "b")
    assert (grammar.is_broken, allowed(grammar)) == (True, "")


def test_where_stop_tokens_leave_nothing_the_answer_is_broken() -> None:
    grammar = answer("ab", stop_ids=(ord("b"),))
    assert allowed(grammar) == "a"
    push(grammar, "a")
    assert grammar.is_broken


def test_before_the_marker_anything_but_an_end_may_come_and_behind_it_the_form() -> None:
    grammar = answer("[0-9]", begins_after="</t>", stop_ids=(0,))
    push(grammar, "<t>1x</t")
    assert set(allowed(grammar)) >= set(map(chr, range(1, 256)))
    assert "\0" not in allowed(grammar)
    push(grammar, ">")
    assert allowed(grammar) == "0123456789"


@pytest.mark.parametrize(
    ("last_token", "behind"), [(b">", "ab"), (b"> \n", "ab"), (b">\na", "b"), (b">b", "")]
)
def test_what_comes_with_the_markers_last_token_is_the_beginning(last_token: bytes, behind: str) -> None:
    texts = [*BYTES.token_texts, last_token]
    end = ReasoningEnd("</t>", texts.__getitem__)
    grammar = compiled(GrammarSpec(kind="regex", text="ab*"))
    constrained = AnswerGrammar(
        lambda: grammar, num_words=BYTES.num_words, stop_token_ids=(), reasoning_end=end
    )
    push(constrained, "hm </t</t")
    constrained.push(len(texts) - 1)
    first = allowed(constrained)
    assert first == ("" if last_token == b">b" else behind[:1])
    assert constrained.is_broken == (last_token == b">b")


def test_a_grammar_that_cannot_be_read_breaks_the_answer() -> None:
    def unreadable() -> CompiledGrammar:
        raise ValueError("half of it is missing")

    grammar = AnswerGrammar(unreadable, num_words=2, stop_token_ids=())
    assert grammar.allowed is not None
    assert not grammar.allowed.any()
    assert grammar.is_broken


def test_tokens_that_only_the_model_or_only_the_tokenizer_has_are_no_text() -> None:
    vocabulary = Vocabulary.of(lambda token_id: b"t%d" % token_id, num_tokens=4, size=6, never=(2,))
    assert vocabulary.token_texts == [b"t0", b"t1", b"", b"t3", b"", b""]
    assert len(Vocabulary.of(lambda token_id: b"t", num_tokens=9, size=6).token_texts) == 6


def test_bits_are_counted_from_the_lowest() -> None:
    assert bits_of([0, 33, 63], 2).tolist() == [1, 2 - 2**31]
