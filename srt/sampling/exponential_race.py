"""Draw one token of one row: logits cut by top-k, top-p and min-p, then an exponential race.

The token wins whose noise, divided by its probability, is least; noise is exponentially distributed and depends on
seed, position and token (seeded_noise.py). That draws each token as often as its probability says (it is the Gumbel-max
trick, after taking exponentials), and better than walking along the cumulative distribution: there, a rounding error in
any logit moves the border between all later tokens, and with 50,000 of them one draw in a hundred falls on another
token. Here a draw changes only if the two front runners are as close as the error. So answers to a seed mostly
stay the same where logits differ a little: on other numbers of ranks, for one.

For the cuts, weights are whole numbers, floor(exp((logit - max) / temperature) · 2^s), kept in floating point, with s
such that no sum over the vocabulary can pass 2^52. So every sum here is exact, in whatever order a device adds.

What the cuts mean, by rank (likeliest first, equal logits by lower id). A token stays if its rank is below top_k, and
the probability of those before it (in the distribution before any cut) is at most top_p, and its own is at least
min_p of the largest. So each cut keeps the head of the ranking, the likeliest at least, and all together keep the
shortest of these heads. No cut sorts the vocabulary.
"""

import math

import numpy as np
import torch

from srt.sampling.params import SamplingParams
from srt.sampling.seeded_noise import exponential_noise, noise_of_all

# Top-p throws the logits into bins of 1/16 (after temperature) below the maximum, and sorts only within one.
BINS_PER_UNIT, NUM_BINS = 16, 1024
# Beyond this all tokens are as good as equal, and float32 would not hold much more.
MAX_TEMPERATURE = 1e30


def draw(logits: torch.Tensor, params: SamplingParams, noise_key: int) -> int:
    """The token that wins under `noise_key`. `logits` (V,) has a finite maximum and no NaN."""
    # A copy has the same alignment whatever the row's place in the batch, so the same instructions and the same bits.
    logits = logits.clone()
    below = (logits - logits.amax()) / min(params.temperature, MAX_TEMPERATURE)  # (V,), at most 0
    ids = _those_that_stay(logits, below, params)
    if ids is None:
        noise = noise_of_all(noise_key, len(logits))
    else:
        below = below[ids]
        noise = exponential_noise(noise_key, ids.cpu().numpy().astype(np.uint32))
    # What is impossible, or as good as, arrives at infinity; the likeliest arrives in finite time.
    place = int(torch.argmin(torch.from_numpy(noise).to(below.device) * torch.exp(-below)))
    return place if ids is None else int(ids[place])


def _those_that_stay(
    logits: torch.Tensor, below: torch.Tensor, params: SamplingParams
) -> torch.Tensor | None:
    """Ids, ascending; None when nothing is cut."""
    heads: list[torch.Tensor] = []
    weights = logits
    if params.top_p < 1.0 or params.min_p > 0.0:
        weights = torch.floor(torch.exp(below) * 2.0 ** (52 - (len(logits) - 1).bit_length()))
    if 0 < params.top_k < len(logits):
        heads.append(_top_k_head(logits, params.top_k))
    if params.top_p < 1.0:
        heads.append(_top_p_head(logits, below, weights, params.top_p))
    if params.min_p > 0.0:
        heads.append(_ids_where(weights >= params.min_p * float(weights.amax())))
    return min(heads, key=len, default=None)


def _top_k_head(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    last = float(torch.topk(logits, top_k).values[-1])
    ids = _ids_where(logits >= last)
    return _without_last_ties(logits, ids, last, len(ids) - top_k)


def _top_p_head(
    logits: torch.Tensor, below: torch.Tensor, weights: torch.Tensor, top_p: float
) -> torch.Tensor:
    bins = torch.clamp(below * -BINS_PER_UNIT, max=NUM_BINS - 1).to(torch.int32)  # (V,), 0 for the likeliest
    mass = torch.bincount(bins, weights.double(), NUM_BINS)
    sums = mass.cumsum(0)
    most_before = math.floor(top_p * float(sums[-1]))
    # The last token that stays lies in the last bin before which there is not too much.
    last_bin = int(torch.nonzero((mass > 0) & (sums - mass <= most_before))[-1])
    members = _ids_where(bins == last_bin)
    values, order = torch.sort(logits[members], descending=True)
    inside = weights[members[order]].double()
    before = sums[last_bin] - mass[last_bin] + inside.cumsum(0) - inside
    num_inside = int((before <= most_before).sum())
    last = values[num_inside - 1]
    num_surplus = int((values[num_inside:] == last).sum())
    return _without_last_ties(logits, _ids_where(logits >= last), float(last), num_surplus)


def _without_last_ties(logits: torch.Tensor, ids: torch.Tensor, tied: float, count: int) -> torch.Tensor:
    """`ids`, ascending, without the last `count` of those whose logit is `tied`."""
    if count == 0:
        return ids
    stays = torch.ones_like(ids, dtype=torch.bool)
    stays[_ids_where(logits[ids] == tied)[-count:]] = False
    return ids[stays]


def _ids_where(condition: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(condition).squeeze(1)
