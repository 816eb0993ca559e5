"""Which data-parallel replica a client asks for: by header, or by a field of the body."""

import re
from typing import NamedTuple, Protocol

from starlette.types import Scope

from srt.errors import InvalidRequest

HEADER = "x-data-parallel-rank"
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


class RoutedBody(Protocol):
    """A body that may name a replica. The first name is SGLang's, the second its older one, which its gateway sends."""

    routed_dp_rank: int | None
    data_parallel_rank: int | None


class AskedRank(NamedTuple):
    """`dp_rank` is None where the client does not care; `field` is how it spelled its wish."""

    dp_rank: int | None
    field: str


def asked_dp_rank(scope: Scope, body: RoutedBody) -> AskedRank:
    """The header wins over the body. Raises InvalidRequest when it is no number; whether it exists is not checked."""
    for name, value in scope["headers"]:
        if name == HEADER.encode():
            text = value.decode("latin-1").strip()
            if not _NUMBER.fullmatch(text):
                raise InvalidRequest(f"{HEADER} must be a whole number, got {text[:40]!r}", param=HEADER)
            return AskedRank(int(text), HEADER)
    if body.routed_dp_rank is not None:
        return AskedRank(body.routed_dp_rank, "routed_dp_rank")
    return AskedRank(body.data_parallel_rank, "data_parallel_rank")
