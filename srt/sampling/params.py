"""`SamplingParams`: how one request wants its tokens chosen and when it wants to stop.

Frozen, validated where it is made: an instance that exists is valid. Names are SGLang's; where two APIs
disagree about meaning, docs/sampling.md says which one we follow.
"""

import math
from typing import ClassVar

import msgspec

from srt.errors import InvalidRequest

# What each token of an answer is looked at for: more would make other requests of the step wait.
MAX_STOP_STRINGS = 32
MAX_STOP_STRING_CHARS = 1024
MAX_STOP_TOKEN_IDS = 1024
MAX_LOGIT_BIASES = 4096
MAX_N = 128
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1


class SamplingParams(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """Settings of one request, checked. Raises InvalidRequest that names the field.

    `max_new_tokens` None means "up to the context limit". `top_k` -1 and 0 mean "all".
    `seed` None lets the front process draw one, so that every request has a seed from there on.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    no_stop_trim: bool = False
    logit_bias: tuple[tuple[int, float], ...] = ()
    stream_interval: int | None = None  # tokens a stream gets at once; None: as the server does it

    # Below this the distribution is a point: SGLang's rule, and what "temperature 0" means everywhere.
    GREEDY_BELOW: ClassVar[float] = 1e-6

    @property
    def is_greedy(self) -> bool:
        """Whether the next token is simply the most likely one."""
        return self.temperature < self.GREEDY_BELOW or self.top_k == 1

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the logits."""
        return self.frequency_penalty != 0.0 or self.presence_penalty != 0.0 or self.repetition_penalty != 1.0

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None:
            _check_range("max_new_tokens", self.max_new_tokens, 0, MAX_INT64)
        _check_range("min_new_tokens", self.min_new_tokens, 0, MAX_INT64)
        if self.max_new_tokens is not None and self.min_new_tokens > self.max_new_tokens:
            raise InvalidRequest(
                f"min_new_tokens ({self.min_new_tokens}) is greater than "
                f"max_new_tokens ({self.max_new_tokens})",
                param="min_new_tokens",
            )
        _check_range("temperature", self.temperature, 0.0, math.inf)
        _check_range("top_k", self.top_k, -1, MAX_INT64)
        _check_range("top_p", self.top_p, 0.0, 1.0)
        if self.top_p == 0.0:
            raise InvalidRequest("top_p must be greater than 0", param="top_p")
        _check_range("min_p", self.min_p, 0.0, 1.0)
        _check_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _check_range("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _check_range("repetition_penalty", self.repetition_penalty, 0.0, 2.0)
        if self.repetition_penalty == 0.0:
            raise InvalidRequest("repetition_penalty must be greater than 0", param="repetition_penalty")
        if self.seed is not None:
            _check_range("seed", self.seed, MIN_INT64, MAX_INT64)
        _check_range("n", self.n, 1, MAX_N)
        if self.stream_interval is not None:
            _check_range("stream_interval", self.stream_interval, 1, MAX_INT64)
        if len(self.stop) > MAX_STOP_STRINGS:
            raise InvalidRequest(f"at most {MAX_STOP_STRINGS} stop strings", param="stop")
        if "" in self.stop:
            raise InvalidRequest("a stop string must not be empty", param="stop")
        if any(len(stop) > MAX_STOP_STRING_CHARS for stop in self.stop):
            raise InvalidRequest(f"a stop string may have {MAX_STOP_STRING_CHARS} characters", param="stop")
        if len(self.stop_token_ids) > MAX_STOP_TOKEN_IDS:
            raise InvalidRequest(f"at most {MAX_STOP_TOKEN_IDS} stop_token_ids", param="stop_token_ids")
        if len(self.logit_bias) > MAX_LOGIT_BIASES:
            raise InvalidRequest(f"at most {MAX_LOGIT_BIASES} entries in logit_bias", param="logit_bias")
        for _, bias in self.logit_bias:
            _check_range("logit_bias", bias, -100.0, 100.0)

    def check_token_ids(self, vocab_size: int) -> None:
        """Raise InvalidRequest if a token id in these settings is outside the vocabulary."""
        for token_id in self.stop_token_ids:
            _check_range("stop_token_ids", token_id, 0, vocab_size - 1)
        for token_id, _ in self.logit_bias:
            _check_range("logit_bias", token_id, 0, vocab_size - 1)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    # `not (low <= value)` also catches NaN, which compares false with everything.
    if not low <= value <= high or value == math.inf:
        raise InvalidRequest(f"{name} must be between {low} and {high}, got {value}", param=name)
