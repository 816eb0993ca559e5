"""Who a request is, and with whom it shares cached prefixes."""

import re

from srt.errors import InvalidRequest

_RID = re.compile(r"[!-~]{1,256}")
# Kept for as long as a prefix is cached, outside what the KV memory counts; enough for any hash or name.
MAX_KEY_CHARS = 512


def checked_rid(rid: str | None, *, made: str) -> str:
    """The client's rid, or `made` if there is none. Raises InvalidRequest.

    It is what /abort_request takes, goes into logs and, for a stream, into every event: hence short and plain.
    """
    if rid is None:
        return made
    if not _RID.fullmatch(rid):
        raise InvalidRequest("rid must be 1 to 256 printable ASCII characters without spaces", param="rid")
    return rid


def to_namespace(cache_salt: str | None, extra_key: str | None, *, lora: str = "") -> tuple[str, ...]:
    """Requests of different adapters, salts or keys share no prefix.

    Three fields, three places: one can never be mistaken for another, or for two joined. An empty salt is an error:
    who meant to be alone would share with everybody. Raises InvalidRequest.
    """
    for name, value in (("cache_salt", cache_salt), ("extra_key", extra_key)):
        if value is not None and len(value) > MAX_KEY_CHARS:
            raise InvalidRequest(f"{name} may have {MAX_KEY_CHARS} characters", param=name)
    if cache_salt == "":
        raise InvalidRequest(
            "cache_salt must not be empty; leave it out to share with everybody", param="cache_salt"
        )
    namespace = (lora, cache_salt or "", extra_key or "")
    return namespace if any(namespace) else ()
