"""`MockModel`: stands where a model stands and computes nothing, to measure what is around it (--load-format mock).

It is runner and sampler in one: the next token is a function of the last one and its position, out of words that every
reader can read, and nobody looks through a vocabulary of logits for it. Only for rows that penalties, a bias, banned
tokens or a grammar change there are logits, and the real sampler. The end-of-text token never comes by itself; a
`logit_bias` can ask for it.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from srt.forward_batch import ForwardBatch, Prediction
from srt.model_executor.model_runner import RunnerStats
from srt.sampling.batch_params import SampleRow
from srt.sampling.sampler import Sampler
from srt.tokenizer.tokenizer import Tokenizer

# There are no keys and values, so their number is limited by the books that are kept of them only.
DEFAULT_CAPACITY = 2**20
MAX_WORDS = 4096
FAVOURITE = 10.0  # logit of the token that would be next; the others have noise around 0
ROWS_READ_AT_ONCE = 64


class MockModel:
    """Implements `srt.forward_batch.Runner` and `managers.scheduler.scheduler.TokenSampler`, taking turns.

    A step takes `step_s`, whatever is in it. The same tokens on every rank.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        vocab_size: int,
        step_s: float = 0.0,
        capacity: int = DEFAULT_CAPACITY,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.vocab_size = vocab_size
        self._step_s = step_s
        self._capacity = capacity
        self._sleep = sleep
        self._words = _words(tokenizer)
        self._sampler = Sampler(vocab_size)
        self._next_ids = np.empty(0, np.int64)

    def size_pool(self) -> int:
        """Tokens that the scheduler may keep books of."""
        return self._capacity

    def stats(self) -> RunnerStats:
        """Nothing takes any memory."""
        return RunnerStats(weight_bytes=0, kv_bytes=0, num_tokens=self._capacity)

    def forward(self, batch: ForwardBatch) -> Prediction:
        """Next tokens; logits that are all the same, which `sample` knows to ignore."""
        if self._step_s:
            self._sleep(self._step_s)
        if batch.also_reads is not None:
            num_rows = len(batch.also_reads.rows)
            for start in range(0, num_rows, ROWS_READ_AT_ONCE):
                batch.also_reads.read(self._flat(min(ROWS_READ_AT_ONCE, num_rows - start)))
        self._next_ids = self._words_after(batch, batch.logit_rows)
        likeliest = torch.from_numpy(self._words_after(batch, batch.greedy_rows))
        return Prediction(self._flat(len(self._next_ids)), likeliest)

    def sample(self, logits: torch.Tensor, rows: Sequence[SampleRow]) -> npt.NDArray[np.int64]:
        """The next token of each row of the last `forward` that has logits."""
        assert len(rows) == len(self._next_ids), "rows of another step"
        token_ids = self._next_ids.copy()
        for index, row in enumerate(rows):
            if not _is_plain(row):
                token_ids[index] = self._sampler.sample(self._real_logits(row, token_ids[index]), [row])[0]
        return token_ids

    def _words_after(self, batch: ForwardBatch, rows: torch.Tensor) -> npt.NDArray[np.int64]:
        at = rows.numpy()
        mixed = batch.input_ids.numpy()[at] * 2654435761 + batch.positions.numpy()[at] * 40503
        words: npt.NDArray[np.int64] = self._words[(mixed >> 7) % len(self._words)]
        return words

    def _flat(self, num_rows: int) -> torch.Tensor:
        """Logits without memory: one number, seen `num_rows` by `vocab_size` times."""
        return torch.zeros(1, 1).expand(num_rows, self.vocab_size)

    def _real_logits(self, row: SampleRow, favourite: int) -> torch.Tensor:
        logits = np.random.default_rng(row.position).standard_normal((1, self.vocab_size), np.float32)
        logits[0, favourite] = FAVOURITE
        return torch.from_numpy(logits)


def _is_plain(row: SampleRow) -> bool:
    return (
        row.seen_ids is None and row.banned_ids is None and row.allowed is None and not row.params.logit_bias
    )


def _words(tokenizer: Tokenizer) -> npt.NDArray[np.int64]:
    """Tokens that are a word or a part of one by themselves, so that each is seen at once; at least some token."""
    ids = []
    for token_id in range(tokenizer.vocab_size):
        text = tokenizer.token_bytes(token_id, skip_special_tokens=True)
        if text.isascii() and text.strip().isalpha():
            ids.append(token_id)
            if len(ids) == MAX_WORDS:
                break
    return np.array(ids or [0], np.int64)
