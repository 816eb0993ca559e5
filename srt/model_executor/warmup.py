"""One prefill and one decode before the first client: kernels are chosen and memory is mapped when first used."""

import torch

from srt.forward_batch import ForwardBatch, Runner


def warm_up(runner: Runner, *, num_tokens: int) -> None:
    """Run a prefill of `num_tokens` and a decode step. Touches the padding slot only; every rank must do it."""
    runner.forward(_batch_of_one(num_new=num_tokens, num_before=0))
    runner.forward(_batch_of_one(num_new=1, num_before=1))


def _batch_of_one(*, num_new: int, num_before: int) -> ForwardBatch:
    seq_len = num_before + num_new
    return ForwardBatch(
        input_ids=torch.zeros(num_new, dtype=torch.int64),
        positions=torch.arange(num_before, seq_len),
        out_slots=torch.zeros(num_new, dtype=torch.int64),
        row_starts=torch.tensor([0, num_new], dtype=torch.int32),
        seq_lens=torch.tensor([seq_len], dtype=torch.int32),
        slot_table=torch.zeros(1, seq_len, dtype=torch.int32),
        logit_rows=torch.tensor([num_new - 1]),
        greedy_rows=torch.tensor([num_new - 1]),
        num_decode_rows=1 if num_new == 1 else 0,
        row_lens_host=(num_new,),
        seq_lens_host=(seq_len,),
    )
