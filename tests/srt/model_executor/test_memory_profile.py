"""Tokens that fit into what is free."""

import pytest

from srt.configs.load import load_model_config
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.model_executor.memory_profile import kv_budget, num_pool_tokens
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint

BYTES_PER_TOKEN = 2 * 2 * 3 * 8 * 4  # of the tiny model in float32


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    return load_model_config(write_tiny_checkpoint(tmp_path_factory.mktemp("model")))


def num_tokens(
    config: ModelConfig, budget: int, *, page_size: int = 1, max_total_tokens: int | None = None
) -> int:
    return num_pool_tokens(
        budget,
        config=config,
        num_kv_heads=3,
        bytes_per_value=4,
        page_size=page_size,
        max_total_tokens=max_total_tokens,
    )


def test_what_fits_is_cut_to_pages_beside_the_one_for_padding(config: ModelConfig) -> None:
    assert num_tokens(config, 100 * BYTES_PER_TOKEN) == 99
    assert num_tokens(config, 100 * BYTES_PER_TOKEN + 5, page_size=16) == 80


def test_the_users_cap_counts_only_if_it_is_less(config: ModelConfig) -> None:
    assert num_tokens(config, 100 * BYTES_PER_TOKEN, max_total_tokens=40) == 40
    assert num_tokens(config, 100 * BYTES_PER_TOKEN, max_total_tokens=400) == 99


@pytest.mark.parametrize("budget", [-5, 0, 31 * BYTES_PER_TOKEN])
def test_less_than_a_page_is_reported_with_what_to_do(config: ModelConfig, budget: int) -> None:
    with pytest.raises(StartupError, match="raise --mem-fraction-static or free memory"):
        num_tokens(config, budget, page_size=16)


def test_a_larger_fraction_leaves_more_for_kv() -> None:
    assert kv_budget("cpu", 0.9) > kv_budget("cpu", 0.3)
