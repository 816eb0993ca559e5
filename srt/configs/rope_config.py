"""`RopeConfig`: rotary settings, normalised from every spelling a checkpoint may use."""

from dataclasses import dataclass
from typing import Literal

RopeKind = Literal["default", "linear", "dynamic", "llama3", "yarn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Rotary position embedding.

    `kind` names the scaling: "default" (none), "linear", "dynamic" (NTK), "llama3" or "yarn". Fields that a kind
    does not use keep their defaults. `original_max_position` is the length the model was trained for
    before scaling. Sources: Su et al. 2021 (RoFormer), Peng et al. 2023 (YaRN), the Llama 3.1 release.
    """

    theta: float = 10000.0
    rotary_dim: int
    kind: RopeKind = "default"
    factor: float = 1.0
    original_max_position: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True
