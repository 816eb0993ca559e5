import math

import numpy as np

from srt.sampling.seeded_noise import exponential_noise, noise_keys, noise_of_all

MASK_32, MASK_64 = 2**32 - 1, 2**64 - 1


def mix_64(bits: int) -> int:
    """splitmix64's finaliser, in plain integers."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & MASK_64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & MASK_64
    return bits ^ (bits >> 31)


def mix_32(bits: int) -> int:
    """lowbias32, in plain integers."""
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D & MASK_32
    bits = (bits ^ (bits >> 15)) * 0x846CA68B & MASK_32
    return bits ^ (bits >> 16)


def exponential(word: int) -> float:
    return -math.log1p(-min((word + 0.5) * 2.0**-32, 1 - 2**-24))


def documented(seed: int, position: int, token_id: int) -> float:
    key = mix_64(mix_64(seed & MASK_64) + (position + 1) * 0x9E3779B97F4A7C15 & MASK_64)

    def word(number: int) -> int:
        return mix_32((key >> 32) + mix_32((key & MASK_32) + number * 0x9E3779B1 & MASK_32) & MASK_32)

    first = word(2**31 + token_id // 64)
    least = exponential(first) / 64
    return least if token_id % 64 == mix_32(first) >> 26 else least + exponential(word(token_id))


def noise(seed: int, position: int, num_tokens: int) -> np.ndarray:
    return exponential_noise(noise_keys([seed], [position])[0], np.arange(num_tokens, dtype=np.uint32))


def test_numbers_are_the_documented_ones() -> None:
    for seed, position in [(0, 0), (1, 1), (42, 7), (-1, 100_000), (2**63 - 1, 2**31), (-(2**63), 3)]:
        ids = np.array([*range(64), 49_151, 2**20], np.uint32)
        expected = [documented(seed, position, token_id) for token_id in ids.tolist()]
        found = exponential_noise(noise_keys([seed], [position])[0], ids)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_number_does_not_depend_on_those_beside_it() -> None:
    together = noise_keys([5, 6, 7], [1, 2, 3])
    assert noise_keys([6], [2]) == together[1:2]
    assert noise_keys([], []) == []
    whole, some = noise(5, 1, 1000), np.array([999, 3, 500], np.uint32)
    assert exponential_noise(together[0], some).tolist() == whole[[999, 3, 500]].tolist()
    assert noise_of_all(together[0], 1000).tolist() == whole.tolist()


def test_numbers_are_positive_and_exponentially_distributed() -> None:
    numbers = np.concatenate([noise(seed, position, 1000) for seed in range(4) for position in range(5)])
    assert numbers.min() > 0.0
    assert np.isfinite(numbers).all()
    counts, _ = np.histogram(np.exp(-numbers.astype(np.float64)), bins=20, range=(0.0, 1.0))
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-square, 19 degrees, 1 in 1000


def test_each_of_a_block_is_as_likely_to_be_the_least() -> None:
    numbers = np.concatenate([noise(seed, 1, 64 * 500).reshape(-1, 64) for seed in range(20)])
    counts = np.bincount(numbers.argmin(axis=1), minlength=64)
    assert ((counts - 156.25) ** 2 / 156.25).sum() < 103.4  # chi-square, 63 degrees, 1 in 1000
    counts, _ = np.histogram(np.exp(-64.0 * numbers.min(axis=1)), bins=20, range=(0.0, 1.0))
    assert ((counts - 500) ** 2 / 500).sum() < 43.8  # 19 degrees


def test_neighbouring_seeds_positions_and_tokens_are_unrelated() -> None:
    base = noise(1, 1, 4000)
    for other in (noise(2, 1, 4000), noise(1, 2, 4000), noise(2, 0, 4000), np.roll(base, 1)):
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.05  # three standard deviations
    # At one token over many positions, too: that is what an answer is made of.
    first, second = np.array([noise(3, position, 2) for position in range(4000)]).T
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.05
