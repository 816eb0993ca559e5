"""One uniform number for each (seed, position): all the chance there is in sampling.

With mix = splitmix64's finaliser and G = 0x9E3779B97F4A7C15, in arithmetic modulo 2^64:

    bits(seed, position) = mix(mix(seed) + (position + 1) · G)
    uniform = (bits >> 11) · 2^-53        in [0, 1)

A seed is 64 bits, so a negative one is taken modulo 2^64.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK_64 = (1 << 64) - 1


def uniforms(seeds: Sequence[int], positions: Sequence[int]) -> npt.NDArray[np.float64]:
    """(len(seeds),) numbers in [0, 1); each depends on its own seed and position only."""
    mixed_seeds = _mix(np.array([seed & MASK_64 for seed in seeds], np.uint64))
    steps = np.array(positions, np.uint64) + np.uint64(1)
    bits = _mix(mixed_seeds + steps * GOLDEN)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
