from dataclasses import replace

import torch

from srt.distributed.collectives import LoneGroup
from srt.layers.lm_head import LOGITS_PER_SLICE, LmHead
from srt.layers.quantization.unquantized import prepare_plain
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.tp_ranks import KeepingReader

VOCAB_SIZE = LOGITS_PER_SLICE // 2


def test_what_is_only_looked_at_comes_in_slices_and_what_is_sampled_at_once() -> None:
    weight = torch.arange(2.0 * VOCAB_SIZE).view(VOCAB_SIZE, 2)
    head = LmHead(prepare_plain(weight, None), VOCAB_SIZE, LoneGroup())
    hidden = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    reader = KeepingReader(1, 2, 3, 4, 0)

    logits = head(hidden, replace(extend([(Tokens(), [0] * 6)], Slots(8)), also_reads=reader))

    assert [len(part) for part in reader.logits] == [2, 2, 1]
    assert torch.cat(reader.logits)[:, 1].tolist() == [2.0, 2.5, 4.0, 9.0, 3.0]
    assert logits[:, 1].tolist() == [5.0]
