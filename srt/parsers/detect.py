"""Which formats a model speaks, by what its chat template writes for earlier answers; and what the flags make of it.

A template shows the model its own calls and reasoning in the format in which it is to write them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srt.parsers.registry import reasoning_format, tool_call_format

AUTO = "auto"
NONE = "none"
BY_FLAG = "as the flag says"
BY_TEMPLATE = "the chat template writes so"
NOT_FOUND = "the chat template writes none that is known"
NO_TEMPLATE = "there is no chat template"


@dataclass(frozen=True, slots=True)
class Signs:
    """A format, and the texts that a template of its models holds: all of them."""

    name: str
    texts: Sequence[str]


# The first that fits counts, so the special stand before the general.
TOOL_CALL_SIGNS = (
    Signs("deepseekv32", ("｜DSML｜", "invoke")),
    Signs("deepseekv3", ("<｜tool▁call▁begin｜>", "```json")),
    Signs("deepseekv31", ("<｜tool▁call▁begin｜>",)),
    Signs("kimi_k2", ("<|tool_calls_section_begin|>",)),
    Signs("mistral-compact", ("[TOOL_CALLS]", "[ARGS]")),
    Signs("mistral", ("[TOOL_CALLS]",)),
    Signs("glm45", ("<tool_call>", "<arg_key>")),
    Signs("qwen3_coder", ("<tool_call>", "<function=")),
    Signs("hermes", ("<tool_call>", "arguments")),
    Signs("pythonic", ("<|python_start|>",)),
    Signs("pythonic", ("[func_name1(",)),
    Signs("llama3", ("<|python_tag|>",)),
    Signs("llama3", ('"parameters": ', '{"name": ')),
)
REASONING_SIGNS = (
    Signs("kimi", ("◁think▷",)),
    Signs("mistral", ("[THINK]",)),
    Signs("glm45", ("</think>", "<arg_key>")),
    Signs("kimi_k2", ("</think>", "<|tool_calls_section_begin|>")),
    Signs("deepseek-v3", ("</think>", "<｜Assistant｜>", "thinking")),
    Signs("deepseek-r1", ("</think>", "<｜Assistant｜>")),
    Signs("qwen3", ("</think>",)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParserChoice:
    """The format's name, None for none, and why it is that."""

    name: str | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ParserChoices:
    """Both of a model's formats."""

    tool_calls: ParserChoice
    reasoning: ParserChoice

    def facts(self) -> Mapping[str, str | None]:
        """For the lines that are logged at the start."""
        return {
            "tool_call_parser": self.tool_calls.name,
            "tool_call_parser_reason": self.tool_calls.reason,
            "reasoning_parser": self.reasoning.name,
            "reasoning_parser_reason": self.reasoning.reason,
        }


def check_parser_names(tool_call_parser: str, reasoning_parser: str) -> None:
    """Raise StartupError for a name that is none, and list those there are."""
    if tool_call_parser not in (AUTO, NONE):
        tool_call_format(tool_call_parser)
    if reasoning_parser not in (AUTO, NONE):
        reasoning_format(reasoning_parser)


def choose_parsers(tool_call_parser: str, reasoning_parser: str, template: str | None) -> ParserChoices:
    """What the flags, checked, mean for a model with this template."""
    return ParserChoices(
        tool_calls=_choose(tool_call_parser, template, TOOL_CALL_SIGNS),
        reasoning=_choose(reasoning_parser, template, REASONING_SIGNS),
    )


def _choose(asked: str, template: str | None, signs: Sequence[Signs]) -> ParserChoice:
    if asked != AUTO:
        return ParserChoice(name=None if asked == NONE else asked, reason=BY_FLAG)
    if template is None:
        return ParserChoice(name=None, reason=NO_TEMPLATE)
    for sign in signs:
        if all(text in template for text in sign.texts):
            return ParserChoice(name=sign.name, reason=BY_TEMPLATE)
    return ParserChoice(name=None, reason=NOT_FOUND)
