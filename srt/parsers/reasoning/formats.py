"""The reasoning formats there are, by the names that SGLang gives them."""

from collections.abc import Mapping

from srt.parsers.reasoning.format import ReasoningFormat

_FORMATS = (
    # Templates of these open the reasoning, or the model does without a word.
    ReasoningFormat(name="deepseek-r1", begin="<think>", end="</think>", always_thinks=True),
    ReasoningFormat(name="qwen3-thinking", begin="<think>", end="</think>", always_thinks=True),
    # Of these, a switch of the template or the model decides.
    ReasoningFormat(name="qwen3", begin="<think>", end="</think>"),
    ReasoningFormat(name="deepseek-v3", begin="<think>", end="</think>"),
    ReasoningFormat(name="glm45", begin="<think>", end="</think>"),
    ReasoningFormat(name="kimi_k2", begin="<think>", end="</think>"),
    ReasoningFormat(name="kimi", begin="◁think▷", end="◁/think▷"),
    ReasoningFormat(name="mistral", begin="[THINK]", end="[/THINK]"),
)

REASONING_FORMATS: Mapping[str, ReasoningFormat] = {known.name: known for known in _FORMATS}
