import numpy as np

from srt.sampling.seeded_uniform import uniforms

MASK = 2**64 - 1


def mix(bits: int) -> int:
    """splitmix64's finaliser, in plain integers."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & MASK
    return bits ^ (bits >> 31)


def documented(seed: int, position: int) -> float:
    bits = mix(mix(seed & MASK) + (position + 1) * 0x9E3779B97F4A7C15 & MASK)
    return float((bits >> 11) * 2.0**-53)


def test_numbers_are_the_documented_ones() -> None:
    seeds = [0, 1, 42, -1, 2**63 - 1, -(2**63)]
    positions = [0, 1, 7, 100_000, 2**31, 3]
    expected = [documented(seed, position) for seed, position in zip(seeds, positions, strict=True)]
    assert uniforms(seeds, positions).tolist() == expected


def test_a_number_does_not_depend_on_those_beside_it() -> None:
    together = uniforms([5, 6, 7], [1, 2, 3])
    assert uniforms([6], [2])[0] == together[1]
    assert uniforms([], []).tolist() == []


def test_numbers_fill_the_unit_interval_evenly() -> None:
    numbers = np.concatenate([uniforms([seed] * 1000, range(1000)) for seed in range(20)])
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    counts, _ = np.histogram(numbers, bins=20, range=(0.0, 1.0))
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-square, 19 degrees, 1 in 1000


def test_neighbouring_seeds_and_positions_are_unrelated() -> None:
    numbers = np.stack([uniforms([seed] * 2000, range(2000)) for seed in range(4)])
    for left, right in [
        (numbers[0], numbers[1]),
        (numbers[0, 1:], numbers[1, :-1]),
        (numbers[2, 1:], numbers[2, :-1]),
    ]:
        assert abs(np.corrcoef(left, right)[0, 1]) < 0.07  # three standard deviations
