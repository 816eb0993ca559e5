"""`EndedRequest`: what a trace says of one HTTP request, taken down when it is over. Holds nothing that was written.

Whoever turns it into spans (trace_export.py) does so in a thread of its own, so this is all that a request waits for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Attribute = str | bool | int | float | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRequest:
    """Instants are of the monotonic clock; `segments` follow each other without a gap from `received` on.

    `parent` are the headers of the client's own trace, if it has one. `failure` is None when all went well, as far as
    the server is concerned.
    """

    name: str
    received: float
    ended: float
    segments: Mapping[str, float]
    attributes: Mapping[str, Attribute]
    parent: Mapping[str, str]
    failure: str | None = None


class TraceSink(Protocol):
    """Where they go."""

    def put(self, request: EndedRequest) -> None:
        """Take it, or drop it; never waits."""
        ...
