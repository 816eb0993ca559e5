import numpy as np
import torch

from srt.sampling.token_mask import add_logit_bias, ban


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
