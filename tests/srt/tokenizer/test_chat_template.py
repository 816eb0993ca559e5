import time
from typing import Any

import pytest
import transformers

from srt.errors import InvalidRequest
from srt.tokenizer.chat_template import ChatTemplate
from srt.tokenizer.fast_tokenizer import FastTokenizer
from tests.fakes.tokenizer import ByteTokenizer

USER = {"role": "user", "content": "What is 1 < 2 & 'so' on? 世界 🎉"}
ASSISTANT = {"role": "assistant", "content": "The answer is"}
SYSTEM = {"role": "system", "content": "Be brief."}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "<b>é</b>",
            "parameters": {"type": "object", "properties": {}},
        },
    }
]

# In the manner of Qwen and Llama: tools as JSON, loop controls, namespaces, filters, whitespace control.
BUSY_TEMPLATE = """
{%- set ns = namespace(num_turns=0) -%}
{{- bos_token }}
{%- if tools %}
# Tools{% for tool in tools %}
{{ tool | tojson }}
{{ tool.function | tojson(indent=2) }}
{%- endfor %}
{% endif %}
{%- for message in messages %}
    {%- if message.role == 'system' and not loop.first %}{% continue %}{% endif %}
    {%- set ns.num_turns = ns.num_turns + 1 %}
[{{ message['role'] | upper }}]{{ message.content | trim }}
    {%- if message.tool_calls is defined %}
        {%- for call in message.tool_calls %}
<call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</call>
        {%- endfor %}
    {%- endif %}
    {%- generation %}{{ eos_token if message.role == 'assistant' }}{% endgeneration %}
{%- endfor %}
turns: {{ ns.num_turns }}{{ undefined_name }}
{%- if enable_thinking is defined and enable_thinking is false %} no thoughts{% endif %}
{% if add_generation_prompt %}[ASSISTANT]{% endif %}
"""

CONVERSATIONS = [
    [USER],
    [SYSTEM, USER],
    [USER, ASSISTANT, USER],
    [ASSISTANT],
    [SYSTEM],
    [USER, SYSTEM, USER],
    [{"role": "user", "content": ""}, {"role": "assistant", "content": "  spaces  "}],
    [USER, {"role": "tool", "content": '{"a": 1}', "tool_call_id": "x"}],
    [{"role": "user", "content": "{{ bos_token }}{% raw %}<|im_end|>", "name": "someone"}],
]


@pytest.mark.parametrize("add_generation_prompt", [True, False])
@pytest.mark.parametrize("messages", CONVERSATIONS)
@pytest.mark.parametrize("source", [None, BUSY_TEMPLATE])
def test_conversations_render_as_transformers_renders_them(
    smollm2: FastTokenizer,
    reference: transformers.PreTrainedTokenizerBase,
    source: str | None,
    messages: list[dict[str, Any]],
    add_generation_prompt: bool,
) -> None:
    template = ChatTemplate(source or smollm2.chat_template, bos_token="<|im_start|>", eos_token="<|im_end|>")
    for tools, kwargs in ((None, {}), (TOOLS, {"enable_thinking": False})):
        ours = template.render(
            messages, tools=tools, add_generation_prompt=add_generation_prompt, template_kwargs=kwargs
        )
        theirs = reference.apply_chat_template(
            messages,
            tools=tools,
            chat_template=source,
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
            **kwargs,
        )
        assert ours == theirs


@pytest.mark.parametrize("source", [None, BUSY_TEMPLATE])
@pytest.mark.parametrize("text", ["The answer is", "The answer is ", "  {{ x }}\n"])
def test_a_continued_message_ends_the_prompt_as_in_transformers(
    smollm2: FastTokenizer, reference: transformers.PreTrainedTokenizerBase, source: str | None, text: str
) -> None:
    messages = [USER, {"role": "assistant", "content": text}]
    template = ChatTemplate(source or smollm2.chat_template, bos_token="<|im_start|>", eos_token="<|im_end|>")
    ours = template.render(messages, add_generation_prompt=False, continue_final_message=True)
    assert ours == reference.apply_chat_template(
        messages, chat_template=source, continue_final_message=True, tokenize=False
    )
    assert ours.rstrip().endswith(text.strip())


def test_a_prompt_has_one_bos(
    smollm2: FastTokenizer, reference: transformers.PreTrainedTokenizerBase
) -> None:
    ids = smollm2.encode(ChatTemplate.of(smollm2).render([USER]), add_special_tokens=False)
    assert ids == reference.apply_chat_template([USER], add_generation_prompt=True)["input_ids"]


def test_the_template_of_a_tokenizer_sees_its_special_tokens() -> None:
    tokenizer = ByteTokenizer(chat_template="{{ bos_token }}|{{ eos_token }}")
    assert ChatTemplate.of(tokenizer).render([USER]) == "<s>|</s>"


def test_a_special_token_that_there_is_not_prints_nothing() -> None:
    assert ChatTemplate("[{{ bos_token }}]").render([USER]) == "[]"


def refused(
    source: str | None, messages: list[dict[str, Any]] | None = None, **kwargs: Any
) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refusal:
        ChatTemplate(source).render([USER] if messages is None else messages, **kwargs)
    assert refusal.value.status == 400
    return refusal.value


def test_a_model_without_template_refuses_to_chat() -> None:
    assert "no chat template" in str(refused(None))


def test_a_broken_template_refuses_to_chat_and_says_why() -> None:
    assert "chat template is broken: unexpected 'end of template'" in str(refused("{% for"))


def test_what_the_template_says_reaches_the_client() -> None:
    source = "{{ raise_exception('System role not supported') if messages[0].role == 'system' }}"
    error = refused(source, [SYSTEM])
    assert "System role not supported" in str(error)
    assert error.param == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content.x.y }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages | tojson(indent='a', sort_keys=1, unheard=2) }}",
        "{{ 1 / 0 }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{{ strftime_now(3) }}",
        "{{ no_such_function() }}",
    ],
)
def test_whatever_goes_wrong_inside_a_template_is_a_refusal(source: str) -> None:
    assert "the chat template refused these messages" in str(refused(source))


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__.os }}",
        "{{ (messages[0] | attr('__class__')) }}{{ (messages[0] | attr('__class__')).__mro__ }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ 'x' * 10000000000 }}",
        "{{ [0] * 10000000000 }}",
        "{{ 10 ** 10000000000 }}",
        "{{ lipsum(1000000) }}",
    ],
)
def test_a_template_cannot_leave_the_sandbox(source: str) -> None:
    refused(source)


def test_messages_and_kwargs_are_data_not_templates() -> None:
    code = "{{ 7 * 7 }}{% set x = 1 %}"
    template = ChatTemplate("{{ messages[0].content }}{{ extra }}")
    messages = [{"role": "user", "content": code}]
    assert template.render(messages, template_kwargs={"extra": code}) == code + code


def test_output_is_bounded() -> None:
    template = ChatTemplate(
        "{% for i in range(1000) %}{{ messages[0].content }}{% endfor %}", max_output_chars=500
    )
    with pytest.raises(InvalidRequest, match="more than 500 characters"):
        template.render([USER])


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(9) %}{% if messages[0].x %}{% endif %}{% endfor %}",
        "a",
        "{% for i in range(9) %}{% endfor %}",
    ],
)
def test_time_is_bounded(source: str) -> None:
    with pytest.raises(InvalidRequest, match="took too long"):
        ChatTemplate(source, time_limit_s=-1.0).render([USER])


def test_time_without_a_core_is_not_the_templates() -> None:
    template = ChatTemplate("{{ lose_the_core() }}", time_limit_s=0.05)
    assert template.render([USER], template_kwargs={"lose_the_core": lambda: time.sleep(0.1) or "ok"}) == "ok"


def test_rendering_changes_nothing_it_is_given() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    messages = [{"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [call]}]
    ChatTemplate("{{ messages }}").render(messages, add_generation_prompt=False, continue_final_message=True)
    assert messages == [
        {"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [call]}
    ]
    assert call["function"] == {"name": "f", "arguments": '{"x": 1}'}


def test_no_messages_are_refused() -> None:
    assert refused("x", []).param == "messages"


def test_continuing_and_opening_a_new_turn_exclude_each_other() -> None:
    error = refused("{{ messages }}", add_generation_prompt=True, continue_final_message=True)
    assert error.param == "continue_final_message"


def test_a_message_without_text_cannot_be_continued() -> None:
    error = refused(
        "{% for part in messages[0].content %}{{ part.text }}{% endfor %}",
        [{"role": "user", "content": []}],
        add_generation_prompt=False,
        continue_final_message=True,
    )
    assert error.param == "continue_final_message"


def test_a_message_that_the_template_leaves_out_cannot_be_continued() -> None:
    error = refused("nothing", add_generation_prompt=False, continue_final_message=True)
    assert "does not show" in str(error)


def test_the_last_of_several_parts_is_continued() -> None:
    template = ChatTemplate("{% for part in messages[0].content %}[{{ part.text }}]{% endfor %}")
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    text = template.render(
        [{"role": "user", "content": parts}], add_generation_prompt=False, continue_final_message=True
    )
    assert text == "[a][b"


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt"])
def test_template_kwargs_cannot_replace_the_request(name: str) -> None:
    assert refused("x", template_kwargs={name: []}).param == "chat_template_kwargs"


def test_macro_arguments_may_have_any_name() -> None:
    macro = "{% macro show(function, context) %}{{ function }}{{ context }}{% endmacro %}"
    assert ChatTemplate(macro + "{{ show(function=1, context=2) }}").render([USER]) == "12"
