"""The sampling settings that every generating API spells the same way, and how they become SamplingParams."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from srt.errors import InvalidRequest
from srt.sampling.params import SamplingParams

_TOKEN_ID = re.compile(r"-?[0-9]{1,18}")


class SamplingFields(msgspec.Struct, kw_only=True):
    """Strictly typed; null means absent. `sampling_seed` is SGLang's name of `seed`."""

    n: int | None = None
    seed: int | None = None
    sampling_seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int | None] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    no_stop_trim: bool | None = None
    logit_bias: dict[str, float] | None = None


def to_sampling_params(
    fields: SamplingFields,
    *,
    min_new_tokens: int | None,
    max_new_tokens: int | None,
    defaults: Mapping[str, float | int] = {},
    overrides: Mapping[str, Any] = {},
) -> SamplingParams:
    """What the client leaves open comes from `defaults`, else from SamplingParams. Raises InvalidRequest.

    `overrides` are settings that something else the client asked for decides.
    """
    asked = {
        "min_new_tokens": min_new_tokens,
        "temperature": fields.temperature,
        "top_k": fields.top_k,
        "top_p": fields.top_p,
        "min_p": fields.min_p,
        "frequency_penalty": fields.frequency_penalty,
        "presence_penalty": fields.presence_penalty,
        "repetition_penalty": fields.repetition_penalty,
        "seed": fields.seed if fields.seed is not None else fields.sampling_seed,
        "n": fields.n,
        "stop": _to_stop(fields.stop),
        "stop_token_ids": tuple(i for i in fields.stop_token_ids or () if i is not None),
        "ignore_eos": fields.ignore_eos,
        "skip_special_tokens": fields.skip_special_tokens,
        "no_stop_trim": fields.no_stop_trim,
        "logit_bias": _to_logit_bias(fields.logit_bias),
    }
    given: dict[str, Any] = {
        **defaults,
        **{name: value for name, value in asked.items() if value is not None},
        **overrides,
    }
    return SamplingParams(max_new_tokens=max_new_tokens, **given)


def _to_stop(stop: str | list[str] | None) -> tuple[str, ...]:
    """A lone empty string is what some forms send for none."""
    if not stop:
        return ()
    return (stop,) if isinstance(stop, str) else tuple(stop)


def _to_logit_bias(biases: Mapping[str, float] | None) -> tuple[tuple[int, float], ...]:
    """(token id, bias) pairs, each id once however it was spelt."""
    by_id: dict[int, float] = {}
    for key, bias in (biases or {}).items():
        if not _TOKEN_ID.fullmatch(key):
            raise InvalidRequest(f"logit_bias: {key[:40]!r} is not a token id", param="logit_bias")
        by_id[int(key)] = bias
    return tuple(by_id.items())
