"""Small chat templates that write calls and reasoning as those of known models do, in our own words.

Each opens the model's turn with `<turn>` and ends it with `</turn>`, so that tests can cut out what it says.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """A template, and the formats that it shows."""

    source: str
    tool_calls: str | None
    reasoning: str | None = None


def _conversation(assistant: str, *, opening: str = "") -> str:
    return (
        "{%- if tools %}You may call {{ tools | tojson }}\n{% endif %}"
        "{%- for message in messages %}{%- if message.role == 'assistant' %}<turn>"
        + assistant
        + "</turn>{%- elif message.role == 'tool' %}[result]{{ message.content }}"
        "{%- else %}[{{ message.role }}]{{ message.content }}{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}<turn>" + opening + "{%- endif %}"
    )


def _calls(before: str, each: str, after: str = "", *, between: str = "") -> str:
    return (
        "{%- if message.tool_calls %}"
        + before
        + "{%- for call in message.tool_calls %}{%- set f = call.function %}"
        + each
        + "{%- if not loop.last %}"
        + between
        + "{%- endif %}{%- endfor %}"
        + after
        + "{%- endif %}"
    )


_JSON = "{{ f.arguments | tojson }}"
_NAMED = '{"name": {{ f.name | tojson }}, "arguments": ' + _JSON + "}"
_PARAMETERS = '{"name": {{ f.name | tojson }}, "parameters": ' + _JSON + "}"
_THINK = (
    "{%- if message.reasoning_content %}<think>\n{{ message.reasoning_content }}\n</think>\n\n{% endif %}"
)
_FENCED = (
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ f.name }}\n```json\n" + _JSON + "\n```<｜tool▁call▁end｜>"
)
_SAID = "{{ message.content }}"

TEMPLATES = {
    "plain": Template(_conversation(_SAID), None),
    "qwen": Template(
        _conversation(_SAID + _calls("", "\n<tool_call>\n" + _NAMED + "\n</tool_call>")), "hermes"
    ),
    "qwen3": Template(
        _conversation(
            _THINK + _SAID + _calls("", "\n<tool_call>\n" + _NAMED + "\n</tool_call>"),
            opening="{%- if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}",
        ),
        "hermes",
        "qwen3",
    ),
    "llama3": Template(
        "{#- Answer with a function as <|python_tag|> or not #}"
        + _conversation(_SAID + _calls("", _PARAMETERS)),
        "llama3",
    ),
    "llama3.2": Template(
        '{%- set advice = \'Respond as {"name": function, "parameters": dictionary}\' %}'
        + _conversation(_SAID + _calls("", '{"name": "{{ f.name }}", "parameters": ' + _JSON + "}")),
        "llama3",
    ),
    "mistral": Template(
        _conversation(_SAID + _calls("[TOOL_CALLS] [", _NAMED, "]", between=", ")), "mistral"
    ),
    "magistral": Template(
        _conversation(
            "{%- if message.reasoning_content %}[THINK]{{ message.reasoning_content }}[/THINK]{% endif %}"
            + _SAID
            + _calls("", "[TOOL_CALLS]{{ f.name }}[ARGS]" + _JSON)
        ),
        "mistral-compact",
        "mistral",
    ),
    "deepseek v3": Template(
        _conversation(
            _SAID
            + _calls(
                "<｜tool▁calls▁begin｜>",
                _FENCED,
                "<｜tool▁calls▁end｜>",
                between="\n",
            )
        ),
        "deepseekv3",
    ),
    "deepseek r1": Template(
        "{#- <｜Assistant｜> #}"
        + _conversation(
            "{{ message.content.split('</think>')[-1] }}"
            + _calls(
                "<｜tool▁calls▁begin｜>",
                _FENCED,
                "<｜tool▁calls▁end｜>",
            ),
            opening="<think>\n",
        ),
        "deepseekv3",
        "deepseek-r1",
    ),
    "deepseek v3.1": Template(
        "{#- <｜Assistant｜> #}"
        + _conversation(
            "</think>"
            + _SAID
            + _calls(
                "<｜tool▁calls▁begin｜>",
                "<｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>" + _JSON + "<｜tool▁call▁end｜>",
                "<｜tool▁calls▁end｜>",
            ),
            opening="{{ '<think>' if thinking else '</think>' }}",
        ),
        "deepseekv31",
        "deepseek-v3",
    ),
    "qwen3-coder": Template(
        _conversation(
            _SAID
            + _calls(
                "",
                "\n<tool_call>\n<function={{ f.name }}>\n{% for key, value in f.arguments | items %}"
                "<parameter={{ key }}>\n{{ value if value is string else value | tojson }}\n</parameter>\n{% endfor %}"
                "</function>\n</tool_call>",
            )
        ),
        "qwen3_coder",
    ),
    "glm": Template(
        _conversation(
            "{%- if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>\n{% endif %}"
            + _SAID
            + _calls(
                "",
                "\n<tool_call>{{ f.name }}\n{% for key, value in f.arguments | items %}<arg_key>{{ key }}</arg_key>\n"
                "<arg_value>{{ value if value is string else value | tojson }}</arg_value>\n{% endfor %}</tool_call>",
            )
        ),
        "glm45",
        "glm45",
    ),
    "kimi k2": Template(
        _conversation(
            _SAID
            + _calls(
                "<|tool_calls_section_begin|>",
                "<|tool_call_begin|>{{ call.id }}<|tool_call_argument_begin|>" + _JSON + "<|tool_call_end|>",
                "<|tool_calls_section_end|>",
            )
        ),
        "kimi_k2",
    ),
    "kimi": Template(_conversation("◁think▷{{ message.reasoning_content }}◁/think▷" + _SAID), None, "kimi"),
}  # fmt: skip
