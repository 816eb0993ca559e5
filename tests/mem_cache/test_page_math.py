import pytest

from mem_cache.page_math import num_pages, round_down, round_up


@pytest.mark.parametrize(
    ("num_tokens", "pages", "down", "up"), [(0, 0, 0, 0), (1, 1, 0, 16), (16, 1, 16, 16), (17, 2, 16, 32)]
)
def test_counts_round_to_whole_pages(num_tokens: int, pages: int, down: int, up: int) -> None:
    assert num_pages(num_tokens, 16) == pages
    assert round_down(num_tokens, 16) == down
    assert round_up(num_tokens, 16) == up
