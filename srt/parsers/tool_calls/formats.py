"""The tool-call formats there are, by the names that SGLang gives them."""

from collections.abc import Mapping

from srt.parsers.tool_calls import (
    deepseek_v3,
    deepseek_v32,
    glm45,
    hermes,
    json_array,
    kimi_k2,
    llama3,
    mistral,
    pythonic,
    qwen3_coder,
)
from srt.parsers.tool_calls.format import ToolCallFormat

TOOL_CALL_FORMATS: Mapping[str, ToolCallFormat] = {
    "hermes": hermes.FORMAT,
    "qwen": hermes.FORMAT,
    "qwen25": hermes.FORMAT,
    "llama3": llama3.FORMAT,
    "mistral": mistral.FORMAT,
    "mistral-compact": mistral.COMPACT_FORMAT,
    "pythonic": pythonic.FORMAT,
    "qwen3_coder": qwen3_coder.FORMAT,
    "deepseekv3": deepseek_v3.FORMAT,
    "deepseekv31": deepseek_v3.V31_FORMAT,
    "deepseekv32": deepseek_v32.FORMAT,
    "glm45": glm45.FORMAT,
    "kimi_k2": kimi_k2.FORMAT,
}
# No model's own: what a grammar makes of an answer that must call.
JSON_ARRAY = json_array.FORMAT
