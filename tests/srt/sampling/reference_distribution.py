"""What the sampler should do, written the short and slow way: float64, a full sort, no tricks."""

import numpy as np
import numpy.typing as npt

from srt.sampling.params import SamplingParams

Floats = npt.NDArray[np.float64]


def changed_settings(params: SamplingParams) -> str:
    """A short name for a test's case."""
    default = SamplingParams()
    names = [name for name in params.__struct_fields__ if getattr(params, name) != getattr(default, name)]
    return " ".join(f"{name}={getattr(params, name)}" for name in names) or "default"


def probabilities(logits: npt.NDArray[np.float32], params: SamplingParams) -> Floats:
    """(V,) after temperature and cuts; sums to 1."""
    scaled = logits.astype(np.float64) / params.temperature
    unfiltered = np.exp(scaled - scaled.max())
    unfiltered /= unfiltered.sum()
    ranking = np.argsort(-logits, kind="stable")
    ranked = unfiltered[ranking]
    stays = np.cumsum(ranked) - ranked <= params.top_p
    if params.top_k > 0:
        stays[params.top_k :] = False
    stays &= ranked >= params.min_p * ranked[0]
    filtered = np.zeros_like(unfiltered)
    filtered[ranking[stays]] = ranked[stays]
    return np.asarray(filtered / filtered.sum())


def penalised(
    logits: npt.NDArray[np.float32],
    params: SamplingParams,
    prompt: list[int],
    output: list[int],
) -> npt.NDArray[np.float32]:
    """(V,) after penalties, one token at a time."""
    result = logits.astype(np.float64)
    for token in set(output):
        result[token] -= params.frequency_penalty * output.count(token) + params.presence_penalty
    for token in set(prompt + output):
        if result[token] > 0:
            result[token] /= params.repetition_penalty
        else:
            result[token] *= params.repetition_penalty
    return result.astype(np.float32)
