"""Round token counts to pages, up and down."""


def num_pages(num_tokens: int, page_size: int) -> int:
    """Pages that hold `num_tokens`; the last may be partly filled."""
    return -(-num_tokens // page_size)


def round_up(num_tokens: int, page_size: int) -> int:
    """The least whole number of pages' tokens that is not below `num_tokens`."""
    return num_pages(num_tokens, page_size) * page_size


def round_down(num_tokens: int, page_size: int) -> int:
    """The greatest whole number of pages' tokens that is not above `num_tokens`."""
    return num_tokens // page_size * page_size
