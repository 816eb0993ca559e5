"""`DecisionDigest`: a running 64-bit hash of everything this rank has decided.

Ranks compare it once a turn (rank_broadcast.py). Whoever decides something records it here, in the order in
which it happens; what is recorded is numbers only, so a digest depends on nothing but the decisions.

Beside it runs a checksum of each kind of decision. It proves nothing, but tells people where to look.
"""

import hashlib
import zlib
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
    CLOCK = 11
    ARRIVE = 12
    GRAMMAR = 13

    @property
    def subject(self) -> str:
        """What it is about, for people."""
        return _SUBJECTS[self]


_SUBJECTS = {
    Decision.ADMIT: "who is admitted",
    Decision.ROWS: "who runs, with how many tokens",
    Decision.SLOTS: "which slots are taken",
    Decision.SHARE: "what is cached",
    Decision.EVICT: "which slots are evicted",
    Decision.RETRACT: "who is retracted",
    Decision.FINISH: "who has ended, and how",
    Decision.SAMPLED: "which tokens were sampled",
    Decision.FLUSH: "whether the cache was flushed",
    Decision.REPAIR: "whether the books were repaired",
    Decision.CLOCK: "what time it is",
    Decision.ARRIVE: "who has arrived",
    Decision.GRAMMAR: "which grammars there are",
}
_HASH_BYTES = 8


class DecisionDigest:
    """Grows by every decision, for ever."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_HASH_BYTES)
        self._checksums = array("I", [0] * (max(Decision) + 1))

    def record(self, kind: Decision, numbers: Iterable[int]) -> None:
        """Fold in one decision."""
        packed = array("q", (kind, 0))
        packed.extend(numbers)
        packed[1] = len(packed)  # so that two decisions cannot run into each other
        self._hash.update(packed)
        self._checksums[kind] = zlib.crc32(packed, self._checksums[kind])

    def record_array(self, kind: Decision, numbers: npt.NDArray[Any]) -> None:
        """The same for an array."""
        self._hash.update(array("q", (kind, len(numbers))))
        packed = numbers.tobytes()
        self._hash.update(packed)
        self._checksums[kind] = zlib.crc32(packed, self._checksums[kind])

    def value(self) -> bytes:
        """The digest so far: 8 bytes of hash, then the checksums."""
        return self._hash.digest() + self._checksums.tobytes()


def differing_subjects(one: bytes, other: bytes) -> list[str]:
    """What the decisions behind two digests differ in, as far as checksums can tell."""
    return [kind.subject for kind in Decision if _checksum(one, kind) != _checksum(other, kind)]


def _checksum(digest: bytes, kind: Decision) -> bytes:
    start = _HASH_BYTES + 4 * kind
    return digest[start : start + 4]
