import numpy as np
import numpy.typing as npt
import torch

from srt.sampling.token_mask import add_logit_bias, allow_only, ban, is_allowed


def test_bias_is_added_to_the_named_ids() -> None:
    logits = torch.zeros(5)
    add_logit_bias(logits, [(1, 2.5), (4, -100.0)])
    assert logits.tolist() == [0.0, 2.5, 0.0, 0.0, -100.0]


def test_an_id_named_twice_gets_both_biases() -> None:
    logits = torch.zeros(2)
    add_logit_bias(logits, [(1, 1.0), (1, 2.0)])
    assert logits[1] == 3.0


def test_banned_ids_are_impossible() -> None:
    logits = torch.ones(4)
    ban(logits, np.array([0, 3]))
    assert logits.tolist() == [-torch.inf, 1.0, 1.0, -torch.inf]


def bits(*token_ids: int) -> npt.NDArray[np.int32]:
    packed = np.zeros(2, np.int32)
    for token_id in token_ids:
        packed[token_id // 32] |= np.int32(np.uint32(1 << token_id % 32).view(np.int32))
    return packed


def test_only_what_has_a_bit_stays_possible_in_the_rows_that_are_named() -> None:
    logits = torch.ones(3, 40)
    allow_only(logits, [0, 2], [bits(1, 31, 32), bits(39)])
    possible = [torch.nonzero(row > 0).flatten().tolist() for row in logits]
    assert possible == [[1, 31, 32], list(range(40)), [39]]


def test_a_bit_is_read_as_it_is_applied() -> None:
    assert [token_id for token_id in range(64) if is_allowed(bits(0, 31, 63), token_id)] == [0, 31, 63]
