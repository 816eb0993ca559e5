"""Rotary position embedding and its scalings.

The angle of a token depends on its position alone, never on the batch or on how long its sequence is going to be:
so keys in the cache stay right whoever reads them.
"""

import math
from dataclasses import dataclass

import torch

from srt.configs.rope_config import RopeConfig


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and signed sines of one batch's positions, (T, 1, rotary_dim); shared by all layers."""

    cos: torch.Tensor
    sin: torch.Tensor  # the first half negated: what `rotate` multiplies the swapped halves by


class RotaryEmbedding:
    """Makes the rotation of each batch."""

    def __init__(self, config: RopeConfig, *, dtype: torch.dtype, device: str) -> None:
        self._config = config
        self._dtype = dtype
        self._frequencies = rotary_frequencies(config).to(device)
        self._scale = attention_factor(config)

    def rotation(self, positions: torch.Tensor) -> Rotation:
        """For (T,) positions. Computed in float32 and rounded to the model's type."""
        if self._config.kind == "dynamic":
            frequencies = dynamic_frequencies(self._config, positions)  # (T, rotary_dim / 2)
        else:
            frequencies = self._frequencies  # (rotary_dim / 2,)
        angles = positions.to(torch.float32).unsqueeze(-1) * frequencies
        cos, sin = angles.cos() * self._scale, angles.sin() * self._scale
        return Rotation(
            cos=torch.cat((cos, cos), dim=-1).to(self._dtype).unsqueeze(1),
            sin=torch.cat((-sin, sin), dim=-1).to(self._dtype).unsqueeze(1),
        )


def rotate(vectors: torch.Tensor, rotation: Rotation) -> torch.Tensor:
    """(T, heads, head_dim): value i turns with value i + rotary_dim/2; what lies beyond rotary_dim stays."""
    rotary_dim = rotation.cos.shape[-1]
    if rotary_dim == vectors.shape[-1]:
        return _rotate_all(vectors, rotation)
    turned, kept = vectors[..., :rotary_dim], vectors[..., rotary_dim:]
    return torch.cat((_rotate_all(turned, rotation), kept), dim=-1)


def _rotate_all(vectors: torch.Tensor, rotation: Rotation) -> torch.Tensor:
    swapped = vectors.roll(vectors.shape[-1] // 2, dims=-1)
    return torch.addcmul(vectors * rotation.cos, swapped, rotation.sin)


def rotary_frequencies(config: RopeConfig) -> torch.Tensor:
    """Radians a position for each pair of values, (rotary_dim / 2,) float32."""
    plain = _plain_frequencies(config)
    match config.kind:
        case "default" | "dynamic":
            return plain
        case "linear":
            return plain / config.factor
        case "llama3":
            return _llama3_frequencies(config, plain)
        case "yarn":
            return _yarn_frequencies(config, plain)


def attention_factor(config: RopeConfig) -> float:
    """What cosines and sines are multiplied by: YaRN's temperature, 1 for the others."""
    if config.kind != "yarn":
        return 1.0
    if config.attention_factor is not None:
        return config.attention_factor
    return 1.0 if config.factor <= 1 else 0.1 * math.log(config.factor) + 1.0


def dynamic_frequencies(config: RopeConfig, positions: torch.Tensor) -> torch.Tensor:
    """NTK-aware frequencies, (T, rotary_dim / 2): a token's base is that of a sequence which ends with it.

    The reference implementation takes the base of the longest sequence in the call. Up to the original length, and for
    tokens that are generated one by one beyond it, both are the same.
    """
    dim = config.rotary_dim
    lengths = (positions + 1).clamp(min=config.original_max_position).to(torch.float64)
    stretch = config.factor * lengths / config.original_max_position - (config.factor - 1)
    bases = config.theta * stretch ** (dim / (dim - 2))
    exponents = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / dim
    return (1.0 / bases.unsqueeze(-1) ** exponents).to(torch.float32)


def _plain_frequencies(config: RopeConfig) -> torch.Tensor:
    exponents = torch.arange(0, config.rotary_dim, 2, dtype=torch.float32) / config.rotary_dim
    return torch.as_tensor(1.0 / (config.theta**exponents))


def _llama3_frequencies(config: RopeConfig, plain: torch.Tensor) -> torch.Tensor:
    """Long waves are slowed by `factor`, short ones kept, those between blended."""
    wavelengths = 2 * math.pi / plain
    low, high = config.low_freq_factor, config.high_freq_factor
    blend = (config.original_max_position / wavelengths - low) / (high - low)
    blend = blend.clamp(0.0, 1.0)  # 0: long wave, 1: short wave
    return (1 - blend) * plain / config.factor + blend * plain


def _yarn_frequencies(config: RopeConfig, plain: torch.Tensor) -> torch.Tensor:
    """Peng et al. 2023, section 3.2: pairs that turn rarely within the original length are interpolated."""
    dim = config.rotary_dim

    def pair_that_turns(times: float) -> float:
        ratio = config.original_max_position / (times * 2 * math.pi)
        return dim * math.log(ratio) / (2 * math.log(config.theta))

    first, last = pair_that_turns(config.beta_fast), pair_that_turns(config.beta_slow)
    if config.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    if first == last:
        last += 0.001  # a step instead of a ramp
    ramp = (torch.arange(dim // 2, dtype=torch.float32) - first) / (last - first)
    interpolated = ramp.clamp(0.0, 1.0)
    return plain / config.factor * interpolated + plain * (1 - interpolated)
