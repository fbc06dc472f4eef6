"""What crossed a link, and how its two ends agree to forget it.

Both ends number the items that crossed, each direction from 1. Each tells the other in counts (`Progress`) how many of
the other's items are here, with how many of them this side is through, and with how many of its own. What *through*
means is the stack's: delivered to everybody behind (`ginger`), or there at all neighbours (`cbcast`). An item is
forgotten when both sides are through with it: so whenever a broker dies, its neighbours together still have all that
it may have left undone.

The default stack counts several levels for each item, and has `order.link`.
"""

from typing import Generic, Protocol, TypeVar

from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError


class Progress(ProtocolMessage, frozen=True, tag=67):
    """How far items have come over this link, counted from its beginning."""

    received: int
    """So many of yours are here."""
    done: int
    """With so many of yours this side is through."""
    clear: int
    """With so many of mine this side is through."""


class Crossing(Protocol):
    def done_but_for(self, peer: str) -> bool:
        """Whether this side of the link to this peer is through with it."""


T = TypeVar("T", bound=Crossing)


class Lane(Generic[T]):
    """The items that crossed a link in one direction, numbered from 1, until both ends are through with them."""

    __slots__ = ("_forgotten", "entries", "last", "mine", "theirs")

    def __init__(self) -> None:
        self.entries: dict[int, T] = {}
        self.last = 0
        self.mine = 0
        """With so many this side is through."""
        self.theirs = 0
        """With so many the other one is."""
        self._forgotten = 0

    def add(self, item: T) -> None:
        self.last += 1
        self.entries[self.last] = item

    def after(self, number: int) -> list[T]:
        """Those with higher numbers, in order."""
        return [self.entries[no] for no in range(number + 1, self.last + 1)]

    def advance(self, peer: str) -> None:
        before = self.mine
        while self.mine < self.last and self.entries[self.mine + 1].done_but_for(peer):
            self.mine += 1
        if self.mine > before:
            self._forget()

    def hear(self, count: int) -> list[T]:
        """The items with which the other side is through now."""
        if not self.theirs <= count <= self.last:
            raise PeerError(f"through with {count} of {self.last}, and with {self.theirs} before")
        heard = [self.entries[no] for no in range(self.theirs + 1, count + 1)]
        if heard:
            self.theirs = count
            self._forget()
        return heard

    def _forget(self) -> None:
        while self._forgotten < self.mine and self._forgotten < self.theirs:
            self._forgotten += 1
            del self.entries[self._forgotten]


class CrossedLink(Generic[T]):
    """One link, at one of its ends."""

    __slots__ = ("acknowledged", "name", "received", "sent", "told")

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: Lane[T] = Lane()
        self.received: Lane[T] = Lane()
        self.acknowledged = 0
        """So many of those sent are there."""
        self.told = Progress(0, 0, 0)

    def hear(self, message: Progress) -> tuple[list[T], list[T]]:
        """What has arrived there now; and with what the other side is through now."""
        if not self.acknowledged <= message.received <= self.sent.last or message.done > message.received:
            raise PeerError(f"{message.received} of {self.sent.last} received, and {self.acknowledged} before")
        arrived = [self.sent.entries[no] for no in range(self.acknowledged + 1, message.received + 1)]
        self.acknowledged = message.received
        return arrived, [*self.sent.hear(message.done), *self.received.hear(message.clear)]

    def report(self, left: int | None = None) -> Progress | None:
        """What the other end is to be told, if that is news. `left`: of those sent so many have left this broker;
        nothing may be said of the others yet. None: all."""
        self.received.advance(self.name)
        self.sent.advance(self.name)
        clear = self.sent.mine if left is None else min(self.sent.mine, left)
        progress = Progress(self.received.last, self.received.mine, clear)
        if progress == self.told:
            return None
        self.told = progress
        return progress
