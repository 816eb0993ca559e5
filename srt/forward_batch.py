"""`ForwardBatch`: everything one forward pass reads, and nothing else.

There is one kind of batch. Each row is a request with one or more new tokens; a batch whose rows all have
one is a decode batch. Rows with one new token come first, so that a backend may treat them apart.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch


class LogitReader(Protocol):
    """Looks at the logits of some tokens for a moment only: of a long prompt, all at once would fill the memory."""

    rows: torch.Tensor  # (R,) int64, indices into T

    def read(self, logits: torch.Tensor) -> None:
        """The next few rows' (r, vocab_size), as a pass returns them: all of `rows` once, in their order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardBatch:
    """T new tokens in B rows; S of the rows want a next token (those whose last known token is in the batch).

    Of G of these the likeliest token is all that is wanted, so their logits need not be made.

    Host copies of the lengths save the model a device synchronisation.
    """

    input_ids: torch.Tensor  # (T,) int64
    positions: torch.Tensor  # (T,) int64, position of each new token in its sequence
    out_slots: torch.Tensor  # (T,) int64, KV slot that each new token writes
    row_starts: torch.Tensor  # (B + 1,) int32, row b's new tokens are [row_starts[b], row_starts[b + 1])
    seq_lens: torch.Tensor  # (B,) int32, tokens in KV once this pass has written its own
    slot_table: torch.Tensor  # (B, max(seq_lens)) int32, KV slot of each position; 0 beyond seq_lens[b]
    logit_rows: torch.Tensor  # (S - G,) int64, indices into T of those whose next-token logits are wanted
    greedy_rows: torch.Tensor  # (G,) int64, of those whose likeliest next token is wanted
    num_decode_rows: int  # the first so many rows have exactly one new token
    row_lens_host: tuple[int, ...]  # (B,) new tokens of each row
    seq_lens_host: tuple[int, ...]  # (B,)
    also_reads: LogitReader | None = None  # of tokens beside `logit_rows`; the same rows on every rank

    @property
    def num_rows(self) -> int:
        """B."""
        return len(self.row_lens_host)

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.input_ids.shape[0]


class Prediction(NamedTuple):
    """What a pass says of next tokens. The same bits on every rank, so that every rank has the same tokens."""

    logits: torch.Tensor  # (S - G, vocab_size) of `logit_rows`, in float32 or the model's type
    likeliest: torch.Tensor  # (G,) int64 of `greedy_rows`: the lowest id of the greatest logit


class Runner(Protocol):
    """What the scheduler needs of a model: srt.model_executor.model_runner, or a test's fake."""

    vocab_size: int

    def forward(self, batch: ForwardBatch) -> Prediction:
        """Write the new tokens' KV to their slots; say what comes next. The tensors are the caller's."""
        ...
