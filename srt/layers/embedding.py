"""`VocabEmbedding`: token ids to vectors, each rank holding a range of the vocabulary."""

import torch
import torch.nn.functional as F  # noqa: N812

from srt.distributed.collectives import TpGroup


class VocabEmbedding:
    """Rows `first_id` … of the table are this rank's; other ids are zero here, and the sum over ranks is exact."""

    def __init__(self, weight: torch.Tensor, first_id: int, group: TpGroup) -> None:
        self._weight = weight  # (ids of this rank, hidden_size)
        self._first_id = first_id
        self._group = group
        self.num_bytes = weight.nbytes

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(T,) to (T, hidden_size)."""
        if self._group.rank.size == 1:
            return F.embedding(token_ids, self._weight)
        return self._group.all_reduce(self._own_rows(token_ids))

    def _own_rows(self, token_ids: torch.Tensor) -> torch.Tensor:
        num_rows, hidden_size = self._weight.shape
        if num_rows == 0:
            return self._weight.new_zeros(len(token_ids), hidden_size)
        rows = token_ids - self._first_id
        is_foreign = (rows < 0) | (rows >= num_rows)
        vectors = F.embedding(rows.masked_fill(is_foreign, 0), self._weight)
        return vectors.masked_fill_(is_foreign.unsqueeze(-1), 0.0)
