"""`LmHead`: from the stream to logits, or to the likeliest token, only for the tokens whose next token is wanted.

Next on the request's path: srt/sampling/sampler.py
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F  # noqa: N812

from srt.distributed.collectives import TpGroup
from srt.forward_batch import ForwardBatch, LogitReader, Prediction
from srt.layers.quantization.method import PreparedLinear
from srt.sampling.likeliest import find_likeliest
from srt.util.math import ceil_div

# Of those that are only looked at: so many logits at once, 16 MB in float32.
LOGITS_PER_SLICE = 2**22


class HeadOutput(NamedTuple):
    """Of one rank's range of the vocabulary: the logits of some rows, and of others what is greatest in it."""

    logits: torch.Tensor  # (L, range)
    greatest: torch.Tensor  # (G,) float32, no NaN
    places: torch.Tensor  # (G,) int64, of the first that is as great; 0 if it is -inf


class PreparedHead(Protocol):
    """A head's weight in the form that its product wants."""

    num_bytes: int

    def __call__(self, hidden: torch.Tensor, num_logit_rows: int) -> HeadOutput:
        """Of (L + G, hidden_size), L the number of those whose logits are wanted; they come first."""
        ...


class PlainHead:
    """PreparedHead that computes all logits."""

    def __init__(self, product: PreparedLinear) -> None:
        self._product = product
        self.num_bytes = product.num_bytes

    def __call__(self, hidden: torch.Tensor, num_logit_rows: int) -> HeadOutput:
        """See PreparedHead."""
        logits = self._product(hidden)
        among = logits[num_logit_rows:]
        if logits.shape[1] == 0:  # a rank that the vocabulary did not reach
            among = among.new_full((len(among), 1), -torch.inf)
        return HeadOutput(logits[:num_logit_rows], *find_likeliest(among))


class LmHead:
    """Each rank computes its range of the vocabulary, and all get the same, bit for bit.

    Ranges have the same length on every rank: what lies beyond the vocabulary is zero, and cut off again.
    """

    def __init__(
        self,
        norm: Callable[[torch.Tensor], torch.Tensor],
        head: PreparedHead,
        vocab_size: int,
        group: TpGroup,
    ) -> None:
        self._norm = norm
        self._head = head
        self._vocab_size = vocab_size
        self._num_own = ceil_div(vocab_size, group.rank.size)
        self._group = group
        self.num_bytes = head.num_bytes

    def __call__(self, stream: torch.Tensor, batch: ForwardBatch) -> Prediction:
        """From (T, hidden_size) before the norm. Logits: float32 of native kernels, in the model's type of torch."""
        if batch.also_reads is not None:
            self._let_read(stream, batch.also_reads)
        rows = torch.cat([batch.logit_rows, batch.greedy_rows])
        return self._predict(stream[rows], len(batch.logit_rows))

    def _let_read(self, stream: torch.Tensor, reader: LogitReader) -> None:
        rows = reader.rows.to(stream.device)
        num_rows = max(LOGITS_PER_SLICE // self._vocab_size, 1)
        for start in range(0, rows.shape[0], num_rows):
            part = stream[rows[start : start + num_rows]]
            reader.read(self._predict(part, len(part)).logits)

    def _predict(self, stream: torch.Tensor, num_logit_rows: int) -> Prediction:
        if len(stream) == 0:
            return Prediction(stream.new_empty(0, self._vocab_size), stream.new_empty(0, dtype=torch.int64))
        own = self._head(self._norm(stream), num_logit_rows)
        return Prediction(self._all_logits(own.logits), self._likeliest(own))

    def _all_logits(self, logits: torch.Tensor) -> torch.Tensor:
        if logits.shape[1] < self._num_own:
            logits = F.pad(logits, (0, self._num_own - logits.shape[1]))
        if len(logits) > 0:
            logits = self._group.all_gather_columns(logits)
        return logits[:, : self._vocab_size]

    def _likeliest(self, own: HeadOutput) -> torch.Tensor:
        """Of all ranks: the first of equals, for their ranges are in order."""
        rank, num_rows = self._group.rank, len(own.places)
        if rank.size == 1 or num_rows == 0:
            return own.places
        token_ids = (own.places + rank.rank * self._num_own).int()
        pairs = torch.stack([own.greatest.view(torch.int32), token_ids], dim=1)
        everyones = self._group.all_gather_columns(pairs).view(num_rows, rank.size, 2)
        best = everyones[:, :, 0].contiguous().view(torch.float32).argmax(dim=1, keepdim=True)
        return everyones[:, :, 1].gather(1, best).squeeze(1).long()
