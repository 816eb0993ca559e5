"""A native request to a GenerateRequest: one prompt or a batch, one set of settings or one a prompt."""

from collections.abc import Mapping, Sequence

import msgspec

from srt.constrained.grammar_spec import GrammarSpec
from srt.engine_client import GenerateRequest, TextPrompt, TokenPrompt
from srt.entrypoints.generate.logprob_fields import FIELD_NAMES, to_logprob_options
from srt.entrypoints.generate.protocol import (
    NativeRequest,
    NativeSamplingParams,
)
from srt.entrypoints.grammar_fields import json_schema_grammar, structural_tag_grammar
from srt.entrypoints.prompt_rows import to_prompts
from srt.entrypoints.refused_fields import refuse_fields
from srt.entrypoints.request_identity import checked_rid, to_namespace
from srt.entrypoints.sampling_fields import to_sampling_params
from srt.errors import InvalidRequest
from srt.sampling.params import SamplingParams

DEFAULT_MAX_NEW_TOKENS = 128  # SGLang's
GRAMMAR_FIELDS = ("json_schema", "regex", "ebnf", "structural_tag")


def to_generate_request(body: NativeRequest, *, rid: str, dp_rank: int | None = None) -> GenerateRequest:
    """Check what types cannot say, and translate. Raises InvalidRequest."""
    refuse_fields(body, harmless={"modalities": ["text"]})
    prompts = _to_prompts(body)
    return GenerateRequest(
        prompts=prompts,
        sampling=_to_sampling(body.sampling_params, len(prompts)),
        stream=bool(body.stream),
        logprobs=to_logprob_options(body, len(prompts)),
        grammars=_to_grammars(body.sampling_params, len(prompts)),
        rid=rid if isinstance(body.rid, list) else checked_rid(body.rid, made=rid),
        rids=_to_rids(body.rid, len(prompts)) if isinstance(body.rid, list) else (),
        namespace=to_namespace(body.cache_salt, body.extra_key),
        priority=body.priority,
        timeout_s=body.timeout_s,
        dp_rank=dp_rank,
    )


def is_batch(body: NativeRequest) -> bool:
    """Whether the answer is a list although there may be only one prompt in it."""
    prompts = body.input_ids if body.text is None else body.text
    return isinstance(prompts, list) and bool(prompts) and not isinstance(prompts[0], int)


def field_names(body: NativeRequest) -> Mapping[str, str]:
    """The engine's names of fields to the client's."""
    names = {name: f"sampling_params.{name}" for name in SamplingParams.__struct_fields__}
    names |= {name: f"sampling_params.{name}" for name in GRAMMAR_FIELDS}
    prompt = "input_ids" if body.text is None else "text"
    return {**names, **FIELD_NAMES, "prompt": prompt, "max_tokens": "sampling_params.max_new_tokens"}


def _to_prompts(body: NativeRequest) -> Sequence[TextPrompt | TokenPrompt]:
    if body.text is not None and body.input_ids is not None:
        raise InvalidRequest("text and input_ids exclude each other", param="input_ids")
    if body.text is not None:
        return to_prompts(body.text, param="text")
    if body.input_ids is not None:
        return to_prompts(body.input_ids, param="input_ids")
    raise InvalidRequest("text or input_ids is needed", param="text")


def _to_rids(rids: list[str], num_prompts: int) -> list[str]:
    if len(rids) != num_prompts:
        raise InvalidRequest(f"there are {len(rids)} rids for {num_prompts} prompts", param="rid")
    if len(set(rids)) != len(rids):
        raise InvalidRequest("the rids of one request must differ", param="rid")
    return [checked_rid(rid, made=rid) for rid in rids]


def _to_sampling(
    given: NativeSamplingParams | list[NativeSamplingParams] | None, num_prompts: int
) -> list[SamplingParams]:
    if not isinstance(given, list):
        return [_to_sampling_params(given or NativeSamplingParams())] * num_prompts
    if len(given) != num_prompts:
        raise InvalidRequest(
            f"there are {len(given)} sampling_params for {num_prompts} prompts", param="sampling_params"
        )
    sampling = [_to_sampling_params(fields) for fields in given]
    if len({params.n for params in sampling}) != 1:
        raise InvalidRequest("n must be the same for all prompts", param="sampling_params")
    return sampling


def _to_grammars(
    given: NativeSamplingParams | list[NativeSamplingParams] | None, num_prompts: int
) -> list[GrammarSpec | None]:
    """None of them if nobody wants any."""
    each = given if isinstance(given, list) else [given or NativeSamplingParams()] * num_prompts
    grammars = [_to_grammar(fields) for fields in each]
    return grammars if any(grammars) else []


def _to_grammar(fields: NativeSamplingParams) -> GrammarSpec | None:
    named = [name for name in GRAMMAR_FIELDS if getattr(fields, name) not in (None, "")]
    if not named:
        return None
    if len(named) > 1:
        raise InvalidRequest(
            f"{named[0]} and {named[1]} exclude each other", param=f"sampling_params.{named[1]}"
        )
    name, value = named[0], getattr(fields, named[0])
    match name:
        case "json_schema":
            return json_schema_grammar(value, param="sampling_params.json_schema")
        case "structural_tag":
            return structural_tag_grammar(value, param="sampling_params.structural_tag")
        case "regex":
            return GrammarSpec(kind="regex", text=value)
        case _:
            return GrammarSpec(kind="ebnf", text=value)


def _to_sampling_params(fields: NativeSamplingParams) -> SamplingParams:
    # `spaces_between_special_tokens` is about slow tokenizers; those here put none either way.
    refuse_fields(fields, within="sampling_params.")
    return to_sampling_params(
        fields,
        min_new_tokens=fields.min_new_tokens,
        max_new_tokens=(
            DEFAULT_MAX_NEW_TOKENS if fields.max_new_tokens is msgspec.UNSET else fields.max_new_tokens
        ),
        overrides={"stream_interval": fields.stream_interval},
    )
