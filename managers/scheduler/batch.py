"""`Batch`: the requests of one step, turned into what the model and the sampler read.

There is one kind of batch: rows of (request, number of new tokens), those with one new token first. A row
whose last known token is among its new ones also samples the next.
Next on the request's path: srt/model_executor/model_runner.py
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from managers.scheduler.request import Request, Stage
from mem_cache.prefix_cache import Slots
from srt.forward_batch import ForwardBatch, LogitReader
from srt.sampling.batch_params import SampleRow


class Row(NamedTuple):
    """So many new tokens of one request."""

    request: Request
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's work. `starts` are the positions of the rows' first new tokens.

    `sampling` are the rows, by index, that get a token: first those with logits, in their order, then `num_greedy` that
    take the likeliest. `telling` are the places in it of those that want to know its logprob. `prompt_spans` are rows,
    by index, that want to know about the prompt, and the positions whose logits tell them.
    """

    rows: list[Row]
    starts: list[int]
    num_decode_rows: int
    sampling: list[int]
    num_greedy: int = 0
    telling: list[int] = field(default_factory=list)
    prompt_spans: list[tuple[int, range]] = field(default_factory=list)

    @staticmethod
    def begin(rows: Sequence[Row]) -> "Batch":
        """Order the rows; from here on their tokens count as computed. All slots are taken already."""
        decode = [row for row in rows if row.num_tokens == 1]
        ordered = decode + [row for row in rows if row.num_tokens != 1]
        starts: list[int] = []
        sampling: list[int] = []
        greedy: list[int] = []
        telling: list[int] = []
        prompt_spans: list[tuple[int, range]] = []
        for index, (request, num_tokens) in enumerate(ordered):
            starts.append(request.num_computed)
            samples = num_tokens == request.num_uncomputed and request.rules.max_new_tokens > 0
            if request.logprobs is not None:
                if positions := request.logprobs.begin_step(request.num_computed, num_tokens):
                    prompt_spans.append((index, positions))
                if samples:
                    telling.append(len(sampling))
            if samples:
                (greedy if request.is_greedy else sampling).append(index)
            request.begin_step(num_tokens, samples=samples)
        return Batch(ordered, starts, len(decode), sampling + greedy, len(greedy), telling, prompt_spans)

    @property
    def num_tokens(self) -> int:
        """New tokens of all rows."""
        return sum(row.num_tokens for row in self.rows)

    def forward_batch(self, slot_table: Slots, also_reads: LogitReader | None = None) -> ForwardBatch:
        """What the model reads, on the host. `slot_table` has a row for each of ours, this step's slots included."""
        lens = np.array([row.num_tokens for row in self.rows], np.int64)
        starts = np.array(self.starts, np.int64)
        row_starts = np.zeros(len(lens) + 1, np.int32)
        np.cumsum(lens, out=row_starts[1:])
        row_of_token = np.repeat(np.arange(len(lens)), lens)
        positions = np.arange(row_starts[-1]) + np.repeat(starts - row_starts[:-1], lens)
        ends = row_starts[1:][self.sampling].astype(np.int64) - 1
        seq_lens = starts + lens

        def tensor(values: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> torch.Tensor:
            return torch.from_numpy(values)

        return ForwardBatch(
            input_ids=tensor(self._input_ids()),
            positions=tensor(positions),
            out_slots=tensor(slot_table[row_of_token, positions].astype(np.int64)),
            row_starts=tensor(row_starts),
            seq_lens=tensor(seq_lens.astype(np.int32)),
            slot_table=tensor(slot_table),
            logit_rows=tensor(ends[: self._num_drawn]),
            greedy_rows=tensor(ends[self._num_drawn :]),
            num_decode_rows=self.num_decode_rows,
            row_lens_host=tuple(lens.tolist()),
            seq_lens_host=tuple(seq_lens.tolist()),
            also_reads=also_reads,
        )

    def sample_rows(self) -> list[SampleRow]:
        """What the sampler reads, one for each of `sampling` with logits."""
        return [
            _sample_row(self.rows[index].request, self.starts[index] + self.rows[index].num_tokens)
            for index in self.sampling[: self._num_drawn]
        ]

    @property
    def _num_drawn(self) -> int:
        return len(self.sampling) - self.num_greedy

    def _input_ids(self) -> npt.NDArray[np.int64]:
        num_decode = self.num_decode_rows
        rows_with_starts = list(zip(self.rows, self.starts, strict=True))
        decode = [row.request.token_at(start) for row, start in rows_with_starts[:num_decode]]
        parts: list[npt.NDArray[np.int64] | npt.NDArray[np.int32]] = [np.array(decode, np.int64)]
        for (request, num_tokens), start in rows_with_starts[num_decode:]:
            parts.append(request.token_ids(start, start + num_tokens))
        return np.concatenate(parts).astype(np.int64)


def _sample_row(request: Request, position: int) -> SampleRow:
    seen = request.seen_tokens
    if seen is None and request.banned_ids is None and request.grammar is None:  # as most
        return SampleRow(params=request.sampling, position=position)
    return SampleRow(
        params=request.sampling,
        position=position,
        seen_ids=seen.ids if seen is not None else None,
        seen_output_counts=seen.output_counts if seen is not None else None,
        banned_ids=request.banned_ids if request.num_output < request.rules.min_new_tokens else None,
        # Of one that ended while the step was in flight nobody looks at the token.
        allowed=request.grammar.allowed
        if request.grammar is not None and request.stage is not Stage.FINISHED
        else None,
    )
