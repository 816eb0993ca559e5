"""One exponentially distributed number for each (seed, position, token): all the chance there is in sampling.

With mix64 = splitmix64's finaliser, G = 0x9E3779B97F4A7C15, mix32 = Wellons' lowbias32, in wrapping arithmetic:

    key  = mix64(mix64(seed) + (position + 1) · G)             64 bits, of them low and high 32
    bits = mix32(high + mix32(low + token · 0x9E3779B1))       32 bits
    noise = -log(1 - u),  u = (bits + 1/2) · 2^-32, at most 1 - 2^-24

A seed is 64 bits, so a negative one is taken modulo 2^64.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK_32, MASK_64 = (1 << 32) - 1, (1 << 64) - 1
BELOW_ONE = np.float32(1.0 - 2.0**-24)

TokenIds = npt.NDArray[np.uint32]
Noise = npt.NDArray[np.float32]


def noise_keys(seeds: Sequence[int], positions: Sequence[int]) -> list[int]:
    """One 64-bit key for each pair; each depends on its own seed and position only."""
    mixed_seeds = _mix_64(np.array([seed & MASK_64 for seed in seeds], np.uint64))
    steps = np.array(positions, np.uint64) + np.uint64(1)
    keys: list[int] = _mix_64(mixed_seeds + steps * GOLDEN).tolist()
    return keys


def exponential_noise(key: int, token_ids: TokenIds) -> Noise:
    """(len(token_ids),) positive numbers; each depends on the key and its own token only."""
    bits = token_ids * np.uint32(0x9E3779B1)
    bits += np.uint32(key & MASK_32)
    _mix_32(bits)
    bits += np.uint32(key >> 32)
    _mix_32(bits)
    noise = bits.astype(np.float32)
    noise *= np.float32(2.0**-32)
    noise += np.float32(2.0**-33)
    np.minimum(noise, BELOW_ONE, out=noise)
    # Small ones decide, and log1p keeps their precision.
    np.negative(noise, out=noise)
    np.log1p(noise, out=noise)
    np.negative(noise, out=noise)
    return noise


def _mix_64(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _mix_32(bits: npt.NDArray[np.uint32]) -> None:
    """In place: half a megabyte of temporaries for every row would cost more than the arithmetic."""
    bits ^= bits >> np.uint32(16)
    bits *= np.uint32(0x7FEB352D)
    bits ^= bits >> np.uint32(15)
    bits *= np.uint32(0x846CA68B)
    bits ^= bits >> np.uint32(16)
