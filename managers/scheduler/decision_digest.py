"""`DecisionDigest`: a running 64-bit hash of everything this rank has decided.

Ranks compare it once a turn (rank_broadcast.py). Whoever decides something records it here, in the order in
which it happens; what is recorded is numbers only, so a digest depends on nothing but the decisions.
"""

import hashlib
from array import array
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy.typing as npt


class Decision(IntEnum):
    """What kind of decision follows; keeps two kinds with the same numbers apart."""

    ADMIT = 1
    ROWS = 2
    SLOTS = 3
    SHARE = 4
    EVICT = 5
    RETRACT = 6
    FINISH = 7
    SAMPLED = 8
    FLUSH = 9
    REPAIR = 10


class DecisionDigest:
    """Grows by every decision, for ever."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)

    def record(self, kind: Decision, numbers: Iterable[int]) -> None:
        """Fold in one decision."""
        packed = array("q", (kind, 0))
        packed.extend(numbers)
        packed[1] = len(packed)  # so that two decisions cannot run into each other
        self._hash.update(packed)

    def record_array(self, kind: Decision, numbers: npt.NDArray[Any]) -> None:
        """The same for an integer array."""
        self._hash.update(array("q", (kind, len(numbers))))
        self._hash.update(numbers.tobytes())

    def value(self) -> bytes:
        """The digest so far, 8 bytes."""
        return self._hash.digest()
