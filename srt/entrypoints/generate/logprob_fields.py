"""What a native request wants to know of probabilities, one value for all prompts or a list of them."""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from srt.engine_client import LogprobOptions
from srt.entrypoints.generate.protocol import NativeRequest
from srt.errors import InvalidRequest

T = TypeVar("T")

# The engine's names of what it may refuse, and the client's.
FIELD_NAMES = {
    "prompt_start": "logprob_start_len",
    "num_top": "top_logprobs_num",
    "token_ids": "token_ids_logprob",
}


def to_logprob_options(body: NativeRequest, num_prompts: int) -> Sequence[LogprobOptions | None]:
    """One entry a prompt, or none if no prompt wants any. Raises InvalidRequest."""
    wants = _one_each(body.return_logprob, num_prompts, param="return_logprob")
    starts = _one_each(body.logprob_start_len, num_prompts, param="logprob_start_len")
    nums_top = _one_each(body.top_logprobs_num, num_prompts, param="top_logprobs_num")
    ids = _ids_each(body.token_ids_logprob, num_prompts)
    options = [_to_options(*row) for row in zip(wants, starts, nums_top, ids, strict=True)]
    return options if any(options) else ()


def _one_each(value: T | Sequence[T | None] | None, num_prompts: int, *, param: str) -> list[T | None]:
    """The value of each prompt. Raises InvalidRequest for a list of another length."""
    if not isinstance(value, list):
        return [cast(T, value)] * num_prompts
    if len(value) != num_prompts:
        raise InvalidRequest(f"{param} has {len(value)} entries for {num_prompts} prompts", param=param)
    return value


def _ids_each(value: list[Any] | None, num_prompts: int) -> list[list[int] | None]:
    """The same for what is itself a list: of ids, or of lists of ids."""
    if not value:
        return [None] * num_prompts
    if all(isinstance(entry, int) for entry in value):
        return [cast(list[int], value)] * num_prompts
    if any(isinstance(entry, int) for entry in value):
        raise InvalidRequest("token_ids_logprob mixes ids and lists", param="token_ids_logprob")
    return _one_each(value, num_prompts, param="token_ids_logprob")


def _to_options(
    wants: bool | None, start: int | None, num_top: int | None, token_ids: list[int] | None
) -> LogprobOptions | None:
    if not wants:
        # Where to start says nothing about what to tell.
        for name, asked in (("top_logprobs_num", num_top), ("token_ids_logprob", token_ids)):
            if asked:
                raise InvalidRequest(f"{name} needs return_logprob", param=name)
        return None
    if start is not None and start < -1:
        raise InvalidRequest(f"logprob_start_len must be at least -1, got {start}", param="logprob_start_len")
    return LogprobOptions(
        prompt_start=None if start == -1 else start, num_top=num_top or 0, token_ids=tuple(token_ids or ())
    )
