"""A completion request to a GenerateRequest: one prompt or several, text or token ids."""

from collections.abc import Mapping

from srt.engine_client import GenerateRequest, LogprobOptions
from srt.entrypoints.openai.completions.protocol import CompletionRequest
from srt.entrypoints.openai.form_fields import asked_grammar
from srt.entrypoints.openai.request import HARMLESS
from srt.entrypoints.prompt_rows import to_prompts
from srt.entrypoints.refused_fields import refuse_fields
from srt.entrypoints.request_identity import checked_rid, to_namespace
from srt.entrypoints.sampling_fields import to_sampling_params
from srt.errors import InvalidRequest

DEFAULT_MAX_TOKENS = 16  # OpenAI's

_HARMLESS = {**HARMLESS, "add_special_tokens": True}


def field_names(body: CompletionRequest) -> Mapping[str, str]:
    """The engine's names of fields to the client's. Raises InvalidRequest for a form that is none."""
    asked = asked_grammar(body)
    return {
        "max_new_tokens": "max_tokens",
        "min_new_tokens": "min_tokens",
        "num_top": "logprobs",
        "prompt_start": "echo",
        **({} if asked is None else {asked.grammar.kind: asked.field}),
    }


def to_generate_request(body: CompletionRequest, *, rid: str, dp_rank: int | None = None) -> GenerateRequest:
    """Check what types cannot say, and translate. Raises InvalidRequest.

    The checkpoint's recommended sampling does not apply: it is meant for conversations.
    """
    refuse_fields(body, harmless=_HARMLESS)
    body.check_whole_only()
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise InvalidRequest("best_of must be equal to n, or absent", param="best_of")
    prompts = to_prompts(body.prompt, param="prompt")
    asked = asked_grammar(body)
    logprobs = _logprobs(body)
    max_tokens = DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
    sampling = to_sampling_params(
        body,
        min_new_tokens=body.min_tokens,
        max_new_tokens=max_tokens,
        overrides=body.sampling_overrides(),
    )
    return GenerateRequest(
        prompts=prompts,
        sampling=[sampling] * len(prompts),
        logprobs=() if logprobs is None else [logprobs] * len(prompts),
        grammars=() if asked is None else [asked.grammar] * len(prompts),
        stream=bool(body.stream),
        rid=checked_rid(body.request_id if body.rid is None else body.rid, made=rid),
        namespace=to_namespace(body.cache_salt, body.extra_key),
        priority=body.priority,
        timeout_s=body.timeout_s,
        dp_rank=dp_rank,
    )


def _logprobs(body: CompletionRequest) -> LogprobOptions | None:
    if body.logprobs is None or body.logprobs is False:
        return None
    if body.logprobs is True:
        raise InvalidRequest("logprobs: Expected `int`, got `bool`", param="logprobs")
    return LogprobOptions(prompt_start=0 if body.echo else None, num_top=body.logprobs)
