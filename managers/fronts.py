"""`Fronts`: what one process that serves HTTP knows of itself and of the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from managers.front_board import FrontBoard, FrontRow
from managers.front_place import ALONE, FrontPlace
from managers.messages.to_front import FrontOrder


class OrderSender(Protocol):
    """The socket of another front."""

    def send(self, message: FrontOrder) -> None:
        """Queue one message; never blocks."""
        ...


@dataclass(frozen=True, kw_only=True)
class Fronts:
    """Its place among them, the figures of all, and the others' sockets. By default it is alone."""

    place: FrontPlace = ALONE
    board: FrontBoard = field(default_factory=FrontBoard.private)
    others: Sequence[OrderSender] = ()

    @property
    def own_row(self) -> FrontRow:
        """The figures that this front keeps."""
        return self.board.rows[self.place.index]

    def tell_others(self, order: FrontOrder) -> None:
        """Pass on what concerns requests that any of them may have."""
        for other in self.others:
            other.send(order)
