"""What an answer is made of: reasoning, content, calls. What every parser gives and every stream writer takes."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model thinks aloud. Never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """More of the answer itself. Never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegin:
    """The model calls `name`, its `index`-th call of this answer, from 0. Its arguments follow.

    Of the formats in which a model numbers its calls itself, `id` is what it wrote.
    """

    index: int
    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the JSON object of a call's arguments, as the model spells it. Never empty.

    The pieces of a whole call, joined, are one valid JSON object; of one that was cut off, the beginning of one.
    """

    index: int
    text: str


AnswerPart = Reasoning | Content | CallBegin | CallArguments


class AnswerParser(Protocol):
    """One choice's text to its parts, as it comes. Linear in the text; gives every character back or knows why not.

    Never raises: whatever a model writes is at least content.
    """

    @property
    def num_calls(self) -> int:
        """Calls begun so far."""
        ...

    @property
    def is_inside_call(self) -> bool:
        """Whether a call has begun and is not complete: an answer that ends here was cut off."""
        ...

    def push(self, text: str) -> list[AnswerPart]:
        """What this much more text says, often nothing yet."""
        ...

    def finish(self) -> list[AnswerPart]:
        """The answer has ended: what was held back."""
        ...
