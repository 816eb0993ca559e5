"""`Message`, the frozen tagged struct that every message between processes extends.

Encoded as MessagePack arrays: no field names on the wire, and nothing that could run code on arrival.
"""

from array import array
from collections.abc import Sequence

import msgspec

# A request's name inside the engine: a number the main process hands out once and never again. The
# client's `rid` is a label that only the main process knows, so reusing one cannot mix two streams.
RequestId = int


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True, kw_only=True):
    """What may cross a process boundary."""


def pack_token_ids(token_ids: Sequence[int]) -> bytes:
    """Token ids as little-endian int32, 4 bytes each: a long prompt costs one copy, not one object a token."""
    return array("i", token_ids).tobytes()


def unpack_token_ids(packed: bytes) -> list[int]:
    """The inverse of `pack_token_ids`."""
    token_ids = array("i")
    token_ids.frombytes(packed)
    return token_ids.tolist()
