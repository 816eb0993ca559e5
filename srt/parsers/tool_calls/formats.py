"""The tool-call formats there are, by the names that SGLang gives them."""

from collections.abc import Mapping

from srt.parsers.tool_calls import hermes
from srt.parsers.tool_calls.format import ToolCallFormat

TOOL_CALL_FORMATS: Mapping[str, ToolCallFormat] = {
    "hermes": hermes.FORMAT,
    "qwen": hermes.FORMAT,
    "qwen25": hermes.FORMAT,
}
