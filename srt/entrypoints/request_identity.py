"""Who a request is, and with whom it shares cached prefixes."""

import re

from srt.errors import InvalidRequest

_RID = re.compile(r"[!-~]{1,256}")


def checked_rid(rid: str | None, *, made: str) -> str:
    """The client's rid, or `made` if there is none. Raises InvalidRequest.

    It is what /abort_request takes, goes into logs and, for a stream, into every event: hence short and plain.
    """
    if rid is None:
        return made
    if not _RID.fullmatch(rid):
        raise InvalidRequest("rid must be 1 to 256 printable ASCII characters without spaces", param="rid")
    return rid


def to_namespace(cache_salt: str | None, extra_key: str | None) -> tuple[str, ...]:
    """Requests of different salts or keys share no prefix.

    Two fields, two places: one can never be mistaken for the other, or for both joined.
    """
    salt, key = cache_salt or "", extra_key or ""
    return (salt, key) if salt or key else ()
