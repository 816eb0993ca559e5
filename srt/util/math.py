"""Whole-number division and rounding."""


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-dividend // divisor)


def align_up(number: int, multiple: int) -> int:
    """The least multiple of `multiple` that is not below `number`."""
    return ceil_div(number, multiple) * multiple
