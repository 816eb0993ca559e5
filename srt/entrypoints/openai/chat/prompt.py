"""A chat request to a plan: the GenerateRequest, and how its answers are to be read. Fields are checked and renamed.

Next on the request's path: managers/tokenizer_manager.py
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srt.constrained.grammar_spec import GrammarSpec
from srt.engine_client import GenerateRequest, LogprobOptions, ModelInfo, TokenPrompt
from srt.entrypoints.openai.chat.answer import AnswerPlan
from srt.entrypoints.openai.chat.messages import to_chat_prompt
from srt.entrypoints.openai.chat.protocol import ChatRequest, ThinkingOptions
from srt.entrypoints.openai.chat.tool_grammar import calls_or, possible_calls, required_array, required_calls
from srt.entrypoints.openai.chat.tools import ToolUse, to_tool_use
from srt.entrypoints.openai.form_fields import NamedGrammar, asked_grammar
from srt.entrypoints.openai.request import HARMLESS
from srt.entrypoints.refused_fields import refuse_fields
from srt.entrypoints.request_identity import checked_rid, to_namespace
from srt.entrypoints.sampling_fields import to_sampling_params
from srt.errors import InvalidRequest
from srt.parsers.registry import reasoning_format, tool_call_format
from srt.parsers.tool_calls.format import ToolCallFormat
from srt.parsers.tool_calls.formats import JSON_ARRAY

_HARMLESS = {**HARMLESS, "modalities": ["text"], "function_call": "auto", "verbosity": "medium"}
_DEFAULTED_FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
# What templates call their switch for reasoning.
_THINKING_SWITCHES = ("enable_thinking", "thinking")


@dataclass(frozen=True, kw_only=True)
class ChatPlan:
    """What a chat asks of the engine, and how its answers are read."""

    request: GenerateRequest
    answers: AnswerPlan
    field_names: Mapping[str, str]  # the engine's names to the client's, for what the engine may yet refuse
    has_generation_prompt: bool  # the prompt ends where the model's turn begins
    continued_text: str | None  # what the model goes on with, if that is what it is to do


def plan_chat(body: ChatRequest, model: ModelInfo, *, rid: str, dp_rank: int | None = None) -> ChatPlan:
    """Check what types cannot say, and translate. Raises InvalidRequest."""
    refuse_fields(body, harmless=_HARMLESS)
    body.check_whole_only()
    tools = to_tool_use(body.tools, body.tool_choice, parallel_tool_calls=body.parallel_tool_calls)
    call_format = _call_format(tools, model)
    asked = asked_grammar(body)
    grammar = _grammar(asked, tools, call_format)
    request = _to_generate_request(body, model, tools, call_format, grammar, rid=rid, dp_rank=dp_rank)
    form_field = "tools" if asked is None else asked.field
    return ChatPlan(
        request=request,
        field_names={} if grammar is None else {grammar.kind: form_field},
        answers=AnswerPlan(
            tool_calls=call_format,
            reasoning=None if model.reasoning_parser is None else reasoning_format(model.reasoning_parser),
            tools=None if tools is None else tools.shown,
            is_parallel=body.parallel_tool_calls is not False,
            separates_reasoning=body.separate_reasoning is not False,
            streams_reasoning=body.stream_reasoning is not False,
            shows_reasoning=body.include_reasoning is not False,
        ),
        has_generation_prompt=body.add_generation_prompt is not False and not body.continue_final_message,
        continued_text=_last_text(body) if body.continue_final_message else None,
    )


def field_names(body: ChatRequest) -> Mapping[str, str]:
    """The engine's names of fields to the client's."""
    limit = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    names = {
        "max_new_tokens": limit,
        "max_tokens": limit,
        "min_new_tokens": "min_tokens",
        "num_top": "top_logprobs",
    }
    return names if body.input_ids is None else {**names, "prompt": "input_ids"}


def _to_generate_request(
    body: ChatRequest,
    model: ModelInfo,
    tools: ToolUse | None,
    call_format: ToolCallFormat | None,
    grammar: GrammarSpec | None,
    *,
    rid: str,
    dp_rank: int | None,
) -> GenerateRequest:
    logprobs = _logprobs(body)
    prompt = to_chat_prompt(
        body.messages,
        tools=None if tools is None else tools.shown,
        add_generation_prompt=body.add_generation_prompt,
        continue_final_message=body.continue_final_message,
        template_kwargs=_template_kwargs(body),
    )
    limit = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    if limit is not None and limit < 1:
        raise InvalidRequest(f"max_new_tokens must be at least 1, got {limit}", param="max_new_tokens")
    overrides = body.sampling_overrides()
    if call_format is not None or model.reasoning_parser is not None:
        # Markers are special tokens of many models.
        overrides["skip_special_tokens"] = False
    return GenerateRequest(
        prompts=[prompt if body.input_ids is None else TokenPrompt(body.input_ids)],
        sampling=[
            to_sampling_params(
                body,
                min_new_tokens=body.min_tokens,
                max_new_tokens=limit,
                defaults=_default_sampling(model),
                overrides=overrides,
            )
        ],
        logprobs=() if logprobs is None else (logprobs,),
        grammars=() if grammar is None else (grammar,),
        stream=bool(body.stream),
        rid=checked_rid(body.request_id if body.rid is None else body.rid, made=rid),
        namespace=to_namespace(body.cache_salt, body.extra_key),
        priority=body.priority,
        timeout_s=body.timeout_s,
        dp_rank=dp_rank,
    )


def _call_format(tools: ToolUse | None, model: ModelInfo) -> ToolCallFormat | None:
    """How calls will be written. Raises InvalidRequest where nobody could tell them from text."""
    if tools is None:
        return None
    native = None if model.tool_call_parser is None else tool_call_format(model.tool_call_parser)
    if tools.mode == "required":
        return native if native is not None and native.structure is not None else JSON_ARRAY
    if native is None:
        raise InvalidRequest(
            "tools: how this model calls is not known (--tool-call-parser); "
            'only "tool_choice": "required", a named function or "none" can be served',
            param="tools",
        )
    return native


def _grammar(
    asked: NamedGrammar | None, tools: ToolUse | None, call_format: ToolCallFormat | None
) -> GrammarSpec | None:
    """What the answer must look like, be it an answer or calls. Raises InvalidRequest."""
    if tools is None or call_format is None:
        return None if asked is None else asked.grammar
    if tools.mode == "required":
        if asked is not None:
            raise InvalidRequest(
                f"{asked.field} excludes a tool_choice that demands a call", param=asked.field
            )
        return required_array(tools) if call_format.structure is None else required_calls(tools, call_format)
    if asked is None:
        return possible_calls(tools, call_format)
    either = calls_or(asked.grammar, tools, call_format)
    if either is None:
        raise InvalidRequest(
            f"{asked.field} and tools together cannot be enforced in this model's way to write calls",
            param=asked.field,
        )
    return either


def _logprobs(body: ChatRequest) -> LogprobOptions | None:
    if not body.logprobs:
        if body.top_logprobs:
            raise InvalidRequest("top_logprobs needs logprobs to be true", param="top_logprobs")
        return None
    return LogprobOptions(num_top=body.top_logprobs or 0)


def _default_sampling(model: ModelInfo) -> dict[str, float | int]:
    """What the checkpoint recommends for a conversation, of what chat lets a client leave open."""
    return {
        name: model.default_sampling[name] for name in _DEFAULTED_FIELDS if name in model.default_sampling
    }


def _template_kwargs(body: ChatRequest) -> Mapping[str, Any]:
    """What the template gets beside the messages: how much to think, unless the client says that to it directly."""
    kwargs = dict(body.chat_template_kwargs or {})
    effort = body.reasoning_effort
    thinks: bool | None = None
    if body.reasoning is not None:
        effort = body.reasoning.effort if effort is None else effort
        thinks = body.reasoning.enabled
    if isinstance(body.thinking, ThinkingOptions):
        thinks = body.thinking.type == "enabled"
    elif body.thinking is not None:
        thinks = body.thinking
    if effort is not None:
        kwargs.setdefault("reasoning_effort", effort)
        thinks = effort != "none" if thinks is None else thinks
    if thinks is not None and not any(name in kwargs for name in _THINKING_SWITCHES):
        kwargs |= dict.fromkeys(_THINKING_SWITCHES, thinks)
    return kwargs


def _last_text(body: ChatRequest) -> str:
    """What the last message says so far."""
    if not body.messages:
        return ""
    content = body.messages[-1].content
    if isinstance(content, list):
        return "".join(part.text or "" for part in content)
    return content or ""
