"""Tokens that fit into what is free."""

import pytest

from srt.configs.load import load_model_config
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.model_executor.memory_profile import (
    SAFETY_MARGIN_BYTES,
    FreeMemory,
    free_memory,
    num_pool_tokens,
)
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint

BYTES_PER_TOKEN = 2 * 2 * 3 * 8 * 4  # of the tiny model in float32


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    return load_model_config(write_tiny_checkpoint(tmp_path_factory.mktemp("model")))


def num_tokens(
    config: ModelConfig,
    memory: FreeMemory,
    *,
    fraction: float = 0.5,
    page_size: int = 1,
    max_total_tokens: int | None = None,
) -> int:
    return num_pool_tokens(
        memory,
        mem_fraction_static=fraction,
        config=config,
        num_kv_heads=3,
        bytes_per_value=4,
        page_size=page_size,
        max_total_tokens=max_total_tokens,
    )


def half_of(num_bytes: int) -> FreeMemory:
    """Where `num_bytes` is what half of the memory leaves to KV."""
    return FreeMemory(2 * num_bytes, 2 * num_bytes)


def test_what_fits_is_cut_to_pages_beside_the_one_for_padding(config: ModelConfig) -> None:
    assert num_tokens(config, half_of(100 * BYTES_PER_TOKEN)) == 99
    assert num_tokens(config, half_of(100 * BYTES_PER_TOKEN + 5), page_size=16) == 80


def test_the_weights_come_out_of_the_share(config: ModelConfig) -> None:
    weights = 40 * BYTES_PER_TOKEN
    memory = FreeMemory(at_start=200 * BYTES_PER_TOKEN, now=200 * BYTES_PER_TOKEN - weights)
    assert num_tokens(config, memory) == 100 - 40 - 1


def test_what_other_programs_use_is_not_counted_against_the_share(config: ModelConfig) -> None:
    """However much the machine has: half of what is free at the start is half of that."""
    total = 64 * 2**30
    free = 10 * 2**30
    assert free < total * 0.5
    assert num_tokens(config, FreeMemory(free, free)) == free // 2 // BYTES_PER_TOKEN - 1


def test_the_users_cap_counts_if_it_is_less(config: ModelConfig) -> None:
    assert num_tokens(config, half_of(100 * BYTES_PER_TOKEN), max_total_tokens=40) == 40


def test_the_tokens_asked_for_are_granted_beyond_the_share_if_they_fit(config: ModelConfig) -> None:
    asked = 1000
    enough = (asked + 16) * BYTES_PER_TOKEN + SAFETY_MARGIN_BYTES
    tight = FreeMemory(at_start=2**40, now=enough)
    assert num_tokens(config, tight, page_size=16, max_total_tokens=asked) == 992
    # What they were promised they get, and not a byte more.
    assert num_tokens(config, FreeMemory(2**40, 2**39 + 2**30), max_total_tokens=asked) == asked


def test_the_tokens_asked_for_may_not_take_the_last_of_the_memory(config: ModelConfig) -> None:
    asked = 10**7
    memory = half_of(asked * BYTES_PER_TOKEN // 2 + SAFETY_MARGIN_BYTES // 2)
    assert num_tokens(config, memory, max_total_tokens=asked) == memory.share(0.5) // BYTES_PER_TOKEN - 1


@pytest.mark.parametrize("share", [-5, 0, 31 * BYTES_PER_TOKEN])
def test_less_than_a_page_is_reported_with_what_is_free_and_what_is_needed(
    config: ModelConfig, share: int
) -> None:
    memory = FreeMemory(at_start=8 * 2**20, now=4 * 2**20 + share)
    with pytest.raises(StartupError, match=r"4 MiB are free.* gives it 0 MiB; it needs at least 0\.0 MiB"):
        num_tokens(config, memory, page_size=16)


def test_too_large_a_page_is_reported_with_what_it_takes(config: ModelConfig) -> None:
    with pytest.raises(StartupError, match=r"100 MiB are free.* gives it 50 MiB; it needs at least 73\.2"):
        num_tokens(config, half_of(50 * 2**20), page_size=100_000)


def test_some_memory_is_free() -> None:
    assert 0 < free_memory("cpu") < 2**50
