"""`SampleRow`: what the sampler must know about one row of logits."""

import msgspec
import numpy as np
import numpy.typing as npt

from srt.sampling.params import SamplingParams


class SampleRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One row to sample.

    `position` is the absolute position of the token to be sampled in its sequence: with the seed it fixes
    the noise. Penalty arrays hold only the tokens seen, so their cost does not depend on the
    vocabulary: `seen_ids` are the distinct ids of prompt and output, `seen_output_counts` how often each occurs
    in the output (0: in the prompt only). Both are None for a request without penalties. `banned_ids` must not
    be sampled at this position (stop tokens before min_new_tokens); None when there are none. `allowed`, for an answer
    with a grammar, has a bit for each token, 32 in a number and the lowest first: no other token may be sampled.
    """

    params: SamplingParams
    position: int
    seen_ids: npt.NDArray[np.int64] | None = None
    seen_output_counts: npt.NDArray[np.int64] | None = None
    banned_ids: npt.NDArray[np.int64] | None = None
    allowed: npt.NDArray[np.int32] | None = None
