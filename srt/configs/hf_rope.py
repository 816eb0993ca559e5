"""Normalise rotary settings of a config.json: `rope_theta` with `rope_scaling`, or the newer `rope_parameters`."""

import math
from typing import get_args

from srt.configs.json_file import JsonObject
from srt.configs.rope_config import RopeConfig, RopeKind

ROPE_KINDS: tuple[RopeKind, ...] = get_args(RopeKind)


def read_rope(config: JsonObject, *, head_dim: int, max_position: int) -> RopeConfig:
    """The rotary settings. `max_position` is config.json's, which some scalings take for the original length."""
    settings = config.child("rope_parameters") or config.child("rope_scaling") or JsonObject(config.path, {})
    if any(isinstance(value, dict) for value in settings.values.values()):
        raise config.error("rope settings that differ between layers are not supported")
    kind = _kind(settings)
    partial = settings.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0))
    original = settings.integer(
        "original_max_position_embeddings", config.integer("original_max_position_embeddings", max_position)
    )
    if kind == "dynamic":
        original = max_position  # the reference implementation ignores the key
    factor = _factor(settings, kind, max_position / original)
    if factor <= 0:
        raise config.error(f"a rope factor of {factor} makes no sense")
    return RopeConfig(
        theta=settings.number("rope_theta", config.number("rope_theta", 10000.0)),
        rotary_dim=int(head_dim * partial),
        kind=kind,
        factor=factor,
        original_max_position=original,
        low_freq_factor=settings.number("low_freq_factor", 1.0),
        high_freq_factor=settings.number("high_freq_factor", 4.0),
        beta_fast=settings.number("beta_fast", 32.0) or 32.0,
        beta_slow=settings.number("beta_slow", 1.0) or 1.0,
        attention_factor=_attention_factor(settings, factor),
        truncate=settings.boolean("truncate", True),
    )


def longest_sequence(config: JsonObject, rope: RopeConfig, max_position: int) -> int:
    """Tokens that the checkpoint vouches for, scaling included.

    Where the original length is given, `max_position` usually includes the scaling already; where it does not
    (Qwen's YaRN instructions), the scaled original length counts. Llama 3 always states the final length.
    """
    if rope.kind in ("default", "llama3"):
        return max_position
    return max(max_position, int(rope.original_max_position * rope.factor))


def _kind(settings: JsonObject) -> RopeKind:
    asked = settings.text("rope_type", settings.text("type", "default"))
    for kind in ROPE_KINDS:
        if kind == asked:
            return kind
    supported = ", ".join(ROPE_KINDS)
    raise settings.error(f"rope scaling {asked} is not supported, only {supported}")


def _factor(settings: JsonObject, kind: RopeKind, implied: float) -> float:
    if kind == "default":
        return 1.0
    return settings.number("factor", implied if kind == "yarn" else None)


def _attention_factor(settings: JsonObject, factor: float) -> float | None:
    """None leaves it to YaRN's formula."""
    if settings.has("attention_factor"):
        return settings.number("attention_factor")
    mscale, mscale_all_dim = settings.number("mscale", 0.0), settings.number("mscale_all_dim", 0.0)
    if mscale and mscale_all_dim and factor > 1:
        return (0.1 * mscale * math.log(factor) + 1.0) / (0.1 * mscale_all_dim * math.log(factor) + 1.0)
    return None
