"""ForwardBatches over sequences that grow in scattered slots: a scheduler's bookkeeping, as small as it gets."""

import random
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import torch

from srt.forward_batch import ForwardBatch


@dataclass
class Slots:
    """Slots 1 … in pages, handed out in a seeded random order of pages."""

    num_pages: int
    page_size: int = 1
    seed: int = 0
    free_pages: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.free_pages = list(range(1, self.num_pages + 1))
        random.Random(self.seed).shuffle(self.free_pages)

    def take(self, num_held: int, held: list[int], num_new: int) -> list[int]:
        """Slots for tokens num_held … of a sequence that has `held`; fills its last page first."""
        slots: list[int] = []
        for position in range(num_held, num_held + num_new):
            offset = position % self.page_size
            if offset == 0:
                slots.append(self.free_pages.pop() * self.page_size)
            else:
                slots.append((slots or held)[-1] + 1)
        return slots


@dataclass
class Tokens:
    """One request: tokens whose KV is written, and where."""

    token_ids: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)


def extend(
    rows: Seq[tuple[Tokens, Seq[int]]], slots: Slots, *, wants_logits: Seq[bool] | None = None
) -> ForwardBatch:
    """A batch that appends the given new tokens to each sequence. Rows with one token must come first.

    Without `wants_logits`, every row's last token wants them.
    """
    for sequence, new_ids in rows:
        sequence.slots += slots.take(len(sequence.token_ids), sequence.slots, len(new_ids))
        sequence.token_ids += new_ids
    row_lens = [len(new_ids) for _, new_ids in rows]
    seq_lens = [len(sequence.token_ids) for sequence, _ in rows]
    row_starts = [sum(row_lens[:row]) for row in range(len(rows) + 1)]
    slot_table = torch.zeros(len(rows), max(seq_lens), dtype=torch.int32)
    for row, (sequence, _) in enumerate(rows):
        slot_table[row, : len(sequence.slots)] = torch.tensor(sequence.slots, dtype=torch.int32)
    wanted = wants_logits or [True] * len(rows)
    return ForwardBatch(
        input_ids=torch.tensor([token for _, new_ids in rows for token in new_ids]),
        positions=torch.cat([torch.arange(n - new, n) for n, new in zip(seq_lens, row_lens, strict=True)]),
        out_slots=torch.tensor(
            [slot for (sequence, new_ids) in rows for slot in sequence.slots[-len(new_ids) :]]
        ),
        row_starts=torch.tensor(row_starts, dtype=torch.int32),
        seq_lens=torch.tensor(seq_lens, dtype=torch.int32),
        slot_table=slot_table,
        logit_rows=torch.tensor(
            [row_starts[row + 1] - 1 for row in range(len(rows)) if wanted[row]], dtype=torch.int64
        ),
        greedy_rows=torch.empty(0, dtype=torch.int64),
        num_decode_rows=next((row for row, n in enumerate(row_lens) if n > 1), len(rows)),
        row_lens_host=tuple(row_lens),
        seq_lens_host=tuple(seq_lens),
    )
