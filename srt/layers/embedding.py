"""`VocabEmbedding`: token ids to vectors, each rank holding a range of the vocabulary."""

from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812

from srt.distributed.collectives import TpGroup


class EmbeddingTable(Protocol):
    """A vector for each of some tokens."""

    num_rows: int
    num_bytes: int

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(T,) numbers of rows to (T, hidden_size)."""
        ...


class PlainTable:
    """Row by row."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight  # (num_rows, hidden_size)
        self.num_rows = weight.shape[0]
        self.num_bytes = weight.nbytes

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(T,) to (T, hidden_size)."""
        if self.num_rows == 0:
            return self._weight.new_zeros(len(rows), self._weight.shape[1])
        return F.embedding(rows, self._weight)


class VocabEmbedding:
    """The table's rows are for ids from `first_id`; others are zero here, and the sum over ranks is exact."""

    def __init__(self, table: EmbeddingTable, first_id: int, group: TpGroup) -> None:
        self._table = table
        self._first_id = first_id
        self._group = group
        self.num_bytes = table.num_bytes

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(T,) to (T, hidden_size)."""
        if self._group.rank.size == 1:
            return self._table(token_ids)
        return self._group.all_reduce(self._own_rows(token_ids))

    def _own_rows(self, token_ids: torch.Tensor) -> torch.Tensor:
        rows = token_ids - self._first_id
        is_foreign = (rows < 0) | (rows >= self._table.num_rows)
        vectors = self._table(rows.masked_fill(is_foreign, 0))
        return vectors.masked_fill_(is_foreign.unsqueeze(-1), 0.0)
