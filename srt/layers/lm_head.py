"""`LmHead`: hidden states to logits, only for the tokens whose next token is wanted.

Next on the request's path: srt/sampling/sampler.py
"""

import torch
import torch.nn.functional as F  # noqa: N812

from srt.distributed.collectives import TpGroup
from srt.forward_batch import ForwardBatch, LogitReader
from srt.layers.quantization.method import PreparedLinear
from srt.util.math import ceil_div

# Of those that are only looked at: so many logits at once, 16 MB in float32.
LOGITS_PER_SLICE = 2**22


class LmHead:
    """Each rank computes the logits of its range of the vocabulary, and all get all of them, bit for bit the same.

    Ranges have the same length on every rank: what lies beyond the vocabulary is zero, and cut off again.
    """

    def __init__(self, product: PreparedLinear, vocab_size: int, group: TpGroup) -> None:
        self._product = product
        self._vocab_size = vocab_size
        self._num_own = ceil_div(vocab_size, group.rank.size)
        self._group = group
        self.num_bytes = product.num_bytes

    def __call__(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """(T, hidden_size) to (S, vocab_size): float32 of the native kernels, the model's type of torch."""
        if batch.also_reads is not None:
            self._let_read(hidden, batch.also_reads)
        return self._logits(hidden, batch.logit_rows)

    def _let_read(self, hidden: torch.Tensor, reader: LogitReader) -> None:
        rows = reader.rows.to(hidden.device)
        num_rows = max(LOGITS_PER_SLICE // self._vocab_size, 1)
        for start in range(0, rows.shape[0], num_rows):
            reader.read(self._logits(hidden, rows[start : start + num_rows]))

    def _logits(self, hidden: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        if rows.shape[0] == 0:
            return hidden.new_empty(0, self._vocab_size)
        own_logits = self._product(hidden[rows])
        if own_logits.shape[1] < self._num_own:
            own_logits = F.pad(own_logits, (0, self._num_own - own_logits.shape[1]))
        return self._group.all_gather_columns(own_logits)[:, : self._vocab_size]
