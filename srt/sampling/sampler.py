"""`Sampler`: logits to token ids.

Sees those rows of a step whose logits are wanted; of the others, which are greedy and no more, the model itself tells
the likeliest token (srt/forward_batch.py).

Order: penalties, logit bias, banned ids, grammar; then the likeliest token for greedy rows, and for the others
temperature, top-k, top-p, min-p and a draw. A row's token is a function of its own logits, settings, seed and position
alone: not of the rows beside it, nor of the process that computes it. Equal logits: the lower id counts as the
likelier.

A NaN logit counts as impossible. A row in which nothing is possible gives id 0, or NO_TOKEN if it has a grammar.

Next on the request's path: managers/scheduler/result_processor.py
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from srt.sampling.batch_params import SampleRow
from srt.sampling.exponential_race import draw
from srt.sampling.likeliest import find_likeliest
from srt.sampling.params import SamplingParams
from srt.sampling.penalties import apply_penalties
from srt.sampling.seeded_noise import noise_keys
from srt.sampling.token_mask import add_logit_bias, allow_only, ban, is_allowed

TokenIds = npt.NDArray[np.int64]
# In place of a token that a grammar does not allow: whatever goes wrong, such a token is never given.
NO_TOKEN = -1


class RowChooser(Protocol):
    """Everything behind penalties, bias and bans, done elsewhere: grammars included, and by the same rules."""

    def __call__(self, logits: torch.Tensor, rows: Sequence[SampleRow]) -> TokenIds:
        """(S,) token ids for `logits` (S, V), in any type of floats: what they are as float32 counts."""


class Sampler:
    """Chooses the next token of each row; ids are below `vocab_size`, however wide the logits are.

    With `choose`, that makes the choice in place of what stands here, which runs everywhere.
    """

    def __init__(self, vocab_size: int, choose: RowChooser | None = None) -> None:
        self.vocab_size = vocab_size
        self._choose = choose or _choose_allowed

    def sample(self, logits: torch.Tensor, rows: Sequence[SampleRow]) -> TokenIds:
        """(S,) token ids for `logits` (S, V), which may be changed; S = len(rows).

        They may be rounded to the model's type, and are widened only where that is needed: all are many bytes.
        """
        assert len(logits) == len(rows), f"{len(logits)} rows of logits for {len(rows)} requests"
        with torch.inference_mode():
            logits = logits[:, : self.vocab_size]
            edited = [i for i, row in enumerate(rows) if _is_edited(row)]
            if edited:
                logits = logits.float()
            for i in edited:
                _edit(logits[i], rows[i])
            return self._choose(logits, rows)


def _choose_allowed(logits: torch.Tensor, rows: Sequence[SampleRow]) -> TokenIds:
    logits = logits.float()
    constrained = [i for i, row in enumerate(rows) if row.allowed is not None]
    if not constrained:
        return _choose(logits, rows)
    bits = [allowed for row in rows if (allowed := row.allowed) is not None]
    allow_only(logits, constrained, bits)
    token_ids = _choose(logits, rows)
    for i, row_bits in zip(constrained, bits, strict=True):
        token_id = int(token_ids[i])
        if not (is_allowed(row_bits, token_id) and float(logits[i, token_id]) > -np.inf):
            token_ids[i] = NO_TOKEN
    return token_ids


def _choose(logits: torch.Tensor, rows: Sequence[SampleRow]) -> TokenIds:
    is_greedy = np.array([row.params.is_greedy for row in rows], np.bool_)
    if is_greedy.all():
        return _likeliest(logits)
    token_ids = np.empty(len(rows), np.int64)
    if is_greedy.any():
        token_ids[is_greedy] = _likeliest(logits[torch.from_numpy(is_greedy).to(logits.device)])
    drawn = [i for i, row in enumerate(rows) if not row.params.is_greedy]
    keys = noise_keys([rows[i].params.seed or 0 for i in drawn], [rows[i].position for i in drawn])
    for i, key in zip(drawn, keys, strict=True):
        token_ids[i] = _draw(logits[i], rows[i].params, key)
    return token_ids


def _likeliest(logits: torch.Tensor) -> TokenIds:
    return np.asarray(find_likeliest(logits)[1].cpu().numpy(), np.int64)


def _is_edited(row: SampleRow) -> bool:
    return row.seen_ids is not None or row.banned_ids is not None or bool(row.params.logit_bias)


def _edit(logits: torch.Tensor, row: SampleRow) -> None:
    apply_penalties(logits, row)
    if row.params.logit_bias:
        add_logit_bias(logits, row.params.logit_bias)
    if row.banned_ids is not None:
        ban(logits, row.banned_ids)


def _draw(logits: torch.Tensor, params: SamplingParams, noise_key: int) -> int:
    greatest = float(logits.amax())  # NaN if there is one
    if not np.isfinite(greatest):
        logits = logits.nan_to_num(nan=-torch.inf, neginf=-torch.inf)  # +inf becomes the greatest float
        greatest = float(logits.amax())
    return draw(logits, params, noise_key) if np.isfinite(greatest) else 0
