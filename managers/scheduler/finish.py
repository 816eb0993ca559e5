"""`FinishRules`: when one request ends, and why. Pure: a token and its consequences go in, a verdict comes out.

Order: what is broken, stop strings, stop tokens, the end of the grammar, length. So a token that completes a stop
string and is a stop token ends its request by the string, and a token that ends a request in any way is never also its
"length".
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from srt.engine_client import FinishReason
from srt.sampling.params import SamplingParams
from srt.tokenizer.stop_matcher import StopMatch


@dataclass(frozen=True, slots=True)
class Finish:
    """Why a request ended, and how much of its answer is text (see RequestFinished)."""

    reason: FinishReason
    text_end: int | None = None
    num_trimmed_tokens: int = 0
    cause: str = ""  # of an abort: one of messages.figures.ABORT_CAUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRules:
    """One request's rules, resolved from its settings and the model's end-of-text tokens."""

    max_new_tokens: int
    min_new_tokens: int
    stop_token_ids: frozenset[int]  # asked about membership only: a set's order decides nothing
    trims_stop: bool
    can_stop_early: bool  # whether anything but its length can end it
    vocab_size: int

    @staticmethod
    def of(
        sampling: SamplingParams,
        max_new_tokens: int,
        eos_token_ids: tuple[int, ...],
        vocab_size: int,
        *,
        has_grammar: bool = False,
    ) -> "FinishRules":
        """`ignore_eos` turns off the model's own tokens, not those that the client named."""
        eos = () if sampling.ignore_eos else eos_token_ids
        stop_token_ids = frozenset(eos) | frozenset(sampling.stop_token_ids)
        return FinishRules(
            max_new_tokens=max_new_tokens,
            min_new_tokens=sampling.min_new_tokens,
            stop_token_ids=stop_token_ids,
            trims_stop=not sampling.no_stop_trim,
            can_stop_early=bool(stop_token_ids or sampling.stop or has_grammar),
            vocab_size=vocab_size,
        )

    @property
    def stop_ids_in_vocabulary(self) -> list[int]:
        """The stop tokens that can come up, in order."""
        return sorted(token_id for token_id in self.stop_token_ids if 0 <= token_id < self.vocab_size)

    def banned_ids(self) -> npt.NDArray[np.int64] | None:
        """Tokens that must not be sampled before `min_new_tokens`; None when there are none."""
        inside = self.stop_ids_in_vocabulary
        return np.array(inside, np.int64) if inside and self.min_new_tokens > 0 else None

    def is_token(self, token_id: int) -> bool:
        """Whether it is one at all."""
        return 0 <= token_id < self.vocab_size

    def goes_on(self, num_output: int, token_id: int) -> bool:
        """Whether a request without stop strings and grammar goes on: what `decide` would say of nearly every token."""
        return (
            num_output < self.max_new_tokens
            and 0 <= token_id < self.vocab_size
            and token_id not in self.stop_token_ids
        )

    def decide(
        self, num_output: int, token_id: int, stop_match: StopMatch | None, *, is_whole: bool = False
    ) -> Finish | None:
        """Whether the request ends with `token_id`, its `num_output`-th token; None: it goes on.

        `is_whole`: its grammar allows nothing more, so it ends whatever its least length.
        """
        if not self.is_token(token_id):
            return broken(f"the model gave no valid token (got {token_id})")
        if stop_match is not None and num_output >= self.min_new_tokens:
            end = stop_match.start if self.trims_stop else stop_match.end
            return Finish(FinishReason(type="stop", matched=stop_match.stop), text_end=end)
        if token_id in self.stop_token_ids and num_output >= self.min_new_tokens:
            reason = FinishReason(type="stop", matched=token_id)
            return Finish(reason, num_trimmed_tokens=1 if self.trims_stop else 0)
        if is_whole:
            return Finish(FinishReason(type="stop"))
        if num_output >= self.max_new_tokens:
            return LENGTH
        return None


LENGTH = Finish(FinishReason(type="length"))
CLIENT_LEFT = Finish(FinishReason(type="abort", message="aborted"), cause="client_left")


BROKEN = 500  # the status of what is our fault, and whose KV nobody should reuse


def refused(message: str, status_code: int = 400, *, cause: str = "invalid") -> Finish:
    """The client's fault, or nobody's: the request was not served."""
    return Finish(FinishReason(type="abort", message=message, status_code=status_code), cause=cause)


def broken(message: str) -> Finish:
    """Ours: the request cannot be served, although it should be."""
    return Finish(FinishReason(type="abort", message=message, status_code=BROKEN), cause="broken")
