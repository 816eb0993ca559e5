"""One prompt or several, as text or as token ids, all in one JSON value."""

from collections.abc import Sequence
from typing import cast

from srt.engine_client import GenerateRequest, TextPrompt, TokenPrompt
from srt.errors import InvalidRequest

# Of one request, all prompts together. They start at once, and nobody else is heard meanwhile: this many take a
# tenth of a second.
MAX_CHOICES = 8192


def to_prompts(value: str | Sequence[str | int | list[int]], *, param: str) -> list[TextPrompt | TokenPrompt]:
    """One prompt, or the prompts of a list. Raises InvalidRequest for an empty or a mixed list, naming the row."""
    if isinstance(value, str):
        return [TextPrompt(value)]
    if not value:
        raise InvalidRequest(f"{param} must not be empty", param=param)
    kind = type(value[0])
    if kind is not int:
        _check_number(len(value), param=param)
    if any(type(row) is not kind for row in value):
        raise InvalidRequest(f"{param} mixes texts, token ids and lists", param=param)
    if kind is int:
        return [TokenPrompt(cast(list[int], list(value)))]
    for i, row in enumerate(cast(Sequence[str | list[int]], value)):
        if not row:
            raise InvalidRequest(f"{param}[{i}] must not be empty", param=f"{param}[{i}]")
    if kind is str:
        return [TextPrompt(text) for text in cast(Sequence[str], value)]
    return [TokenPrompt(token_ids) for token_ids in cast(Sequence[list[int]], value)]


def check_num_choices(request: GenerateRequest) -> None:
    """Raise InvalidRequest if a request asks for more than MAX_CHOICES answers."""
    _check_number(len(request.prompts) * request.sampling[0].n, param="prompt")


def _check_number(number: int, *, param: str) -> None:
    if number > MAX_CHOICES:
        raise InvalidRequest(
            f"one request may ask for {MAX_CHOICES} answers, this one asks for {number}", param=param
        )
