"""One exponentially distributed number for each (seed, position, token): all the chance there is in sampling.

With mix64 = splitmix64's finaliser, G = 0x9E3779B97F4A7C15, mix32 = Wellons' lowbias32, in wrapping arithmetic:

    key  = mix64(mix64(seed) + (position + 1) · G)             64 bits, of them low and high 32
    word(n) = mix32(high + mix32(low + n · 0x9E3779B1))        32 bits
    E(word) = -log(1 - u),  u = (word + 1/2) · 2^-32, at most 1 - 2^-24

Tokens come in blocks of 64. The least of 64 exponentially distributed numbers is one itself, but 64 times as small, it
may be any token's, and by how much each of the others is greater is exponentially distributed again. So they are made
that way round: from one word is known how early any of a block may arrive, and most blocks need no others.

    first = word(2^31 + block),  least = E(first) / 64,  quietest = 64 · block + (mix32(first) >> 26)
    noise = least for the quietest of its block, least + E(word(token)) for the others

A seed is 64 bits, so a negative one is taken modulo 2^64.
"""

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK_32, MASK_64 = (1 << 32) - 1, (1 << 64) - 1
BLOCK_SIZE, FIRST_BLOCK = 64, np.uint32(1 << 31)
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
    noise = _exponential(_words(key, token_ids))
    blocks = token_ids // np.uint32(BLOCK_SIZE)
    least, quietest = _least_of_blocks(key, int(blocks.max(initial=0)) + 1)
    np.putmask(noise, token_ids % np.uint32(BLOCK_SIZE) == np.take(quietest, blocks), 0.0)
    noise += np.take(least, blocks)
    return noise


def noise_of_all(key: int, num_tokens: int) -> Noise:
    """The same for all ids below `num_tokens`, without half a dozen arrays as long as a vocabulary."""
    num_blocks = -(-num_tokens // BLOCK_SIZE)
    noise = _exponential(_words(key, _all_ids(num_blocks * BLOCK_SIZE))).reshape(-1, BLOCK_SIZE)
    least, quietest = _least_of_blocks(key, num_blocks)
    noise[np.arange(num_blocks), quietest] = 0.0
    noise += least[:, np.newaxis]
    return noise.reshape(-1)[:num_tokens]


@functools.lru_cache(maxsize=4)
def _all_ids(count: int) -> TokenIds:
    return np.arange(count, dtype=np.uint32)


def _least_of_blocks(key: int, num_blocks: int) -> tuple[Noise, TokenIds]:
    """The least noise of each block, and which of its tokens has it."""
    words = _words(key, np.arange(num_blocks, dtype=np.uint32) + FIRST_BLOCK)
    least = _exponential(words)
    least /= np.float32(BLOCK_SIZE)
    _mix_32(words)
    return least, words // np.uint32(2**32 // BLOCK_SIZE)


def _words(key: int, numbers: TokenIds) -> TokenIds:
    bits = numbers * np.uint32(0x9E3779B1)
    bits += np.uint32(key & MASK_32)
    _mix_32(bits)
    bits += np.uint32(key >> 32)
    _mix_32(bits)
    return bits


def _exponential(words: TokenIds) -> Noise:
    noise = words.astype(np.float32)
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
