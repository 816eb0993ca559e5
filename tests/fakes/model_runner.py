"""A "model" whose KV is the token ids themselves.

It stores each token's id and position in the KV slot it was given and, to predict, reads the whole sequence back
through the slot table and hashes it. So a wrong slot, a stale prefix, a bad chunk border or a page freed too
soon changes the text. It also checks that the batch is what ForwardBatch promises.
"""

import zlib
from collections.abc import Sequence

import numpy as np
import torch

from srt.forward_batch import ForwardBatch, Prediction
from tests.fakes.tokenizer import EOS_ID, VOCAB_SIZE

ALPHABET = b"abcdefgh"
FIRST_CHOICE, SECOND_CHOICE = 2.0, 1.0  # logits; all others are 0
ROWS_READ_AT_ONCE = 3  # of what is only looked at


def choices(token_ids: Sequence[int]) -> tuple[int, int]:
    """The likeliest and the second likeliest token after a sequence."""
    number = zlib.crc32(np.array(token_ids, np.int32).tobytes())
    first = EOS_ID if number % 37 == 0 else ALPHABET[number % len(ALPHABET)]
    second = ALPHABET[(number // 37) % len(ALPHABET)]
    if second == first:
        second = ALPHABET[(ALPHABET.index(first) + 1) % len(ALPHABET)]
    return first, second


class FakeModelRunner:
    """Implements srt.forward_batch.Runner over `num_slots` slots, slot 0 (page 0) included."""

    def __init__(self, num_slots: int, vocab_size: int = VOCAB_SIZE) -> None:
        self.vocab_size = vocab_size
        self.token_of_slot = np.full(num_slots, -1, np.int64)
        self.position_of_slot = np.full(num_slots, -1, np.int64)
        self.batches: list[ForwardBatch] = []
        self.keeps_batches = False

    def forward(self, batch: ForwardBatch) -> Prediction:
        check_batch(batch)
        if self.keeps_batches:
            self.batches.append(batch)
        out_slots = batch.out_slots.numpy()
        self.token_of_slot[out_slots] = batch.input_ids.numpy()
        self.position_of_slot[out_slots] = batch.positions.numpy()
        row_ends = batch.row_starts.numpy()[1:] - 1
        if batch.also_reads is not None:
            rows = batch.also_reads.rows.tolist()
            for start in range(0, len(rows), ROWS_READ_AT_ONCE):
                batch.also_reads.read(self._logits(batch, rows[start : start + ROWS_READ_AT_ONCE]))
        for rows in (batch.logit_rows, batch.greedy_rows):
            assert np.isin(rows.numpy(), row_ends).all(), "a token is sampled in the middle of a row"
        logits = self._logits(batch, batch.logit_rows.tolist())
        return Prediction(logits, self._logits(batch, batch.greedy_rows.tolist()).argmax(1))

    def _logits(self, batch: ForwardBatch, logit_rows: Sequence[int]) -> torch.Tensor:
        logits = np.zeros((len(logit_rows), self.vocab_size), np.float32)
        row_ends = batch.row_starts.numpy()[1:]
        for index, logit_row in enumerate(logit_rows):
            row = int(np.searchsorted(row_ends, logit_row, side="right"))
            first, second = choices(self._sequence(batch, row, int(batch.positions[logit_row]) + 1))
            logits[index, first], logits[index, second] = FIRST_CHOICE, SECOND_CHOICE
        return torch.from_numpy(logits)

    def _sequence(self, batch: ForwardBatch, row: int, seq_len: int) -> list[int]:
        slots = batch.slot_table[row, :seq_len].numpy()
        assert len(set(slots.tolist())) == seq_len, "two tokens of one sequence share a slot"
        assert np.array_equal(self.position_of_slot[slots], np.arange(seq_len)), "KV of another position"
        token_ids: list[int] = self.token_of_slot[slots].tolist()
        return token_ids


def check_batch(batch: ForwardBatch) -> None:
    """What ForwardBatch's docstrings say, as assertions."""
    row_lens = np.array(batch.row_lens_host)
    seq_lens = np.array(batch.seq_lens_host)
    starts = batch.row_starts.numpy()
    assert batch.row_starts.dtype == batch.seq_lens.dtype == batch.slot_table.dtype == torch.int32
    assert batch.input_ids.dtype == batch.positions.dtype == batch.out_slots.dtype == torch.int64
    assert (row_lens > 0).all()
    assert (row_lens[: batch.num_decode_rows] == 1).all()
    assert (row_lens[batch.num_decode_rows :] > 1).all()
    assert np.array_equal(starts, np.concatenate([[0], np.cumsum(row_lens)]))
    assert np.array_equal(batch.seq_lens.numpy(), seq_lens)
    assert batch.num_tokens == starts[-1] == len(batch.positions) == len(batch.out_slots)
    table = batch.slot_table.numpy()
    assert table.shape == (batch.num_rows, seq_lens.max())
    beyond = np.arange(table.shape[1]) >= seq_lens[:, None]
    assert (table[beyond] == 0).all()
    assert (table[~beyond] > 0).all()
    row_of_token = np.repeat(np.arange(len(row_lens)), row_lens)
    positions = np.concatenate([np.arange(end - n, end) for n, end in zip(row_lens, seq_lens, strict=True)])
    assert np.array_equal(batch.positions.numpy(), positions)
    assert np.array_equal(batch.out_slots.numpy(), table[row_of_token, positions])
    assert len(set(batch.out_slots.tolist())) == batch.num_tokens, "two new tokens go to one slot"
