"""Sender and Receiver over a list: what one end sends the other receives, at once and in order."""

from typing import Generic, TypeVar

T = TypeVar("T")


class FakeChannel(Generic[T]):
    """Both ends of one socket. `timeouts` remembers how long the receiver was ready to wait."""

    def __init__(self) -> None:
        self.messages: list[T] = []
        self.timeouts: list[float] = []

    def send(self, message: T) -> None:
        self.messages.append(message)

    def receive(self, timeout_s: float) -> list[T]:
        self.timeouts.append(timeout_s)
        return self.take()

    def take(self) -> list[T]:
        taken, self.messages = self.messages, []
        return taken
