"""`EvictionOrder`, the interface: whom to give up first. One policy so far: least recently used.

Holds only those that may be given up. Members are known by an integer that never comes back, so no
order here depends on addresses, hashes or clocks.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol, TypeVar

Member = TypeVar("Member")


class EvictionOrder(Protocol[Member]):
    """An ordered set of members that may be evicted."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Member]:
        """All members, the first to go first."""
        ...

    def used(self, number: int, member: Member) -> None:
        """The member was just used; from now on it may be evicted, if it could not be before."""
        ...

    def discard(self, number: int) -> None:
        """The member must not be evicted, or is gone. Unknown ones are no error."""
        ...

    def first(self) -> Member:
        """Who goes next; there must be one. Changes nothing."""
        ...


class LeastRecentlyUsed(EvictionOrder[Member]):
    """A list linked in order of use: every operation takes constant time, and no two members tie."""

    def __init__(self) -> None:
        self._members: OrderedDict[int, Member] = OrderedDict()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def used(self, number: int, member: Member) -> None:
        """Move the member to the end."""
        self._members[number] = member
        self._members.move_to_end(number)

    def discard(self, number: int) -> None:
        """Drop the member, if it is here."""
        self._members.pop(number, None)

    def first(self) -> Member:
        """The one whose last use is longest ago."""
        return next(iter(self._members.values()))
