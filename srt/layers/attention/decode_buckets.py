"""Group the rows of a decode batch so that rows of about the same length are padded to one length."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecodeBucket:
    """Some rows of the batch, and the number of positions that each is padded to."""

    rows: tuple[int, ...]
    span: int


def plan_buckets(spans: Sequence[int], *, max_positions: int) -> list[DecodeBucket]:
    """Every row in one bucket, in which no row is less than half as long as the longest.

    A bucket has at most `max_positions` positions, padding included, unless a single row has more.
    """
    by_length = sorted(range(len(spans)), key=lambda row: (-spans[row], row))
    buckets: list[DecodeBucket] = []
    start = 0
    while start < len(by_length):
        longest = spans[by_length[start]]
        room = max(max_positions // longest, 1)
        end = start
        while end < len(by_length) and end - start < room and 2 * spans[by_length[end]] >= longest:
            end += 1
        # Batch order inside a bucket: the one bucket of a common batch then needs no reordering.
        buckets.append(DecodeBucket(tuple(sorted(by_length[start:end])), longest))
        start = end
    return buckets
