"""What a model thinks aloud, apart from what it says, however the text is cut."""

import pytest

from srt.parsers.answer import AnswerPart, Content, Reasoning
from srt.parsers.reasoning.formats import REASONING_FORMATS
from srt.parsers.registry import make_answer_parser, reasoning_format, tool_call_format
from tests.srt.parsers.answers import CITY, TOOLS, call, parts_of

# Text, whether it starts inside, parts.
CASES: list[tuple[str, bool, list[AnswerPart]]] = [
    ("<think>\nHm.\n\nSo.\n</think>\n\nYes.\n", False, [Reasoning("Hm.\n\nSo."), Content("Yes.\n")]),
    ("Hm.</think>Yes.", True, [Reasoning("Hm."), Content("Yes.")]),
    ("<think>Hm.</think>Yes.", True, [Reasoning("Hm."), Content("Yes.")]),
    ("\n Hm. \n</think>\n Yes.", True, [Reasoning(" Hm. "), Content(" Yes.")]),
    ("<think>a</think>b</think>c<think>d", False, [Reasoning("a"), Content("b</think>c<think>d")]),
    ("<think>never ends\n", False, [Reasoning("never ends\n")]),
    ("never ends\n", True, [Reasoning("never ends\n")]),
    ("never ends </thi", True, [Reasoning("never ends </thi")]),
    ("</think>Yes.", True, [Content("Yes.")]),
    ("\n\n</think>\n\n", True, []),
    ("<think>\n\n</think>\n\nYes.", False, [Content("Yes.")]),
    (" \nYes, <think> is a marker.", False, [Content(" \nYes, <think> is a marker.")]),
    ("<thinker>", False, [Content("<thinker>")]),
    ("<thi", False, [Content("<thi")]),
    (" \n", False, [Content(" \n")]),
    ("", False, []),
    ("a < b </ think></think>x", True, [Reasoning("a < b </ think>"), Content("x")]),
]


def spelled(text: str, name: str) -> str:
    known = REASONING_FORMATS[name]
    return text.replace("<think>", known.begin).replace("</think>", known.end)


@pytest.mark.parametrize(("text", "starts_inside", "parts"), CASES)
def test_reasoning_is_told_apart_wherever_the_text_is_cut(
    text: str, starts_inside: bool, parts: list[AnswerPart]
) -> None:
    cuts = [[text], list(text)] + [[text[:place], text[place:]] for place in range(len(text))]
    for pieces in cuts:
        parser = make_answer_parser(None, reasoning_format("qwen3"), starts_in_reasoning=starts_inside)
        assert parts_of(parser, pieces) == parts
        assert (parser.num_calls, parser.is_inside_call) == (0, False)


@pytest.mark.parametrize("name", REASONING_FORMATS)
def test_every_format_knows_its_own_markers(name: str) -> None:
    text = spelled("<think>\nHm < [ ◁ \n</think>\n\nYes.", name)
    for starts_inside in (False, True):
        for pieces in ([text], text):
            parser = make_answer_parser(None, reasoning_format(name), starts_in_reasoning=starts_inside)
            assert parts_of(parser, pieces) == [Reasoning("Hm < [ ◁ "), Content("Yes.")]


@pytest.mark.parametrize("name", REASONING_FORMATS)
def test_the_end_of_the_prompt_tells_whether_an_answer_starts_inside(name: str) -> None:
    known = reasoning_format(name)
    assert known.starts_inside(spelled("…assistant\n<think>\n", name))
    assert not known.starts_inside(spelled("…assistant\n<think>\n\n</think>\n\n", name))
    assert known.is_switched_off(spelled("…assistant\n<think>\n\n</think>\n\n", name))
    assert known.starts_inside("…assistant\n") == (name in ("deepseek-r1", "qwen3-thinking"))
    assert not known.is_switched_off("…assistant\n")


def test_calls_are_looked_for_behind_the_reasoning_only() -> None:
    one = f'<tool_call>\n{{"name": "get_weather", "arguments": {CITY}}}\n</tool_call>'
    text = f"<think>\nI could write {one}.\n</think>\n\n{one}"
    for pieces in ([text], text):
        parser = make_answer_parser(tool_call_format("hermes"), reasoning_format("qwen3"), tools=TOOLS)
        assert parts_of(parser, pieces) == [Reasoning(f"I could write {one}."), *call(0, "get_weather", CITY)]
        assert parser.num_calls == 1


def test_reasoning_that_is_shown_is_content_to_the_letter_and_has_no_calls() -> None:
    one = f'<tool_call>\n{{"name": "get_weather", "arguments": {CITY}}}\n</tool_call>'
    thought = f"\n<think>\nI could write {one}.\n</think>"
    for pieces in ([thought + one], thought + one):
        parser = make_answer_parser(
            tool_call_format("hermes"), reasoning_format("qwen3"), tools=TOOLS, separate_reasoning=False
        )
        assert parts_of(parser, pieces) == [Content(thought), *call(0, "get_weather", CITY)]
    plain = "\n\nNothing to think about.\n"
    parser = make_answer_parser(None, reasoning_format("qwen3"), separate_reasoning=False)
    assert parts_of(parser, plain) == [Content(plain)]


def test_reasoning_leaves_as_it_comes_but_for_what_may_be_the_end() -> None:
    parser = make_answer_parser(None, reasoning_format("qwen3"), starts_in_reasoning=True)
    assert parser.push("Hm.\n") == [Reasoning("Hm.")]
    assert parser.push("So </") == [Reasoning("\nSo ")]
    assert parser.push("think") == []
    assert parser.push(">\n") == []
    assert parser.push("\nYes") == [Content("Yes")]
