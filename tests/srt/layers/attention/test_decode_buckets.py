"""Decode rows share a bucket while padding stays within reason."""

from srt.layers.attention.decode_buckets import DecodeBucket, plan_buckets


def test_rows_of_about_one_length_share_a_bucket_in_batch_order() -> None:
    assert plan_buckets([90, 100, 51], max_positions=1000) == [DecodeBucket((0, 1, 2), 100)]


def test_a_row_less_than_half_as_long_opens_another() -> None:
    assert plan_buckets([100, 3, 40, 49], max_positions=1000) == [
        DecodeBucket((0,), 100),
        DecodeBucket((2, 3), 49),
        DecodeBucket((1,), 3),
    ]


def test_a_bucket_is_full_when_its_positions_are() -> None:
    assert plan_buckets([10, 10, 10], max_positions=25) == [
        DecodeBucket((0, 1), 10),
        DecodeBucket((2,), 10),
    ]


def test_a_row_that_is_too_long_goes_alone() -> None:
    assert plan_buckets([50, 40], max_positions=25) == [DecodeBucket((0,), 50), DecodeBucket((1,), 40)]


def test_no_rows_need_no_bucket() -> None:
    assert plan_buckets([], max_positions=25) == []
