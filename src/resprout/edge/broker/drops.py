"""Messages of a durable subscription that were dropped because too many waited: how many, who was told, and what the
log keeps of them."""

from collections.abc import Iterator
from typing import Final

from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.durable_messages import Drops

CLAIMED_MAX: Final = NUMBER_MAX >> 1
"""A count that a consumer states is believed up to here. So a false one leaves room to count real drops."""


class DropCount:
    """How many messages were dropped since the subscription began, and of how many consumers know."""

    __slots__ = ("_counted_before", "_heard", "_told", "messages")

    def __init__(self, known: Drops) -> None:
        """`known`: what the brokers that held the subscription before have told this one."""
        self.messages = known.messages
        self._told = known.told
        """Of these, how many consumers were told of."""
        self._heard = known.told
        """Of these, how many they have certainly heard of."""
        self._counted_before = known.messages
        """Of these, how many were dropped by the brokers that held the subscription before."""

    def add(self, messages: int) -> None:
        self.messages = min(self.messages + messages, NUMBER_MAX)

    def known(self) -> Drops:
        """Return what other brokers are to know."""
        return Drops(self.messages, self._heard)

    @property
    def untold(self) -> int:
        return self.messages - self._told

    def tell(self) -> None:
        """A consumer is told of all of them."""
        self._told = self.messages

    def heard(self, upto: int) -> None:
        """A consumer has acknowledged that it was told this count."""
        self._heard = max(self._heard, upto)

    def left(self, notice: int) -> None:
        """A consumer has gone that was told this count and has not acknowledged it: the next one is told."""
        if notice > self._heard:
            self._told = self._heard

    def heard_before(self, upto: int, is_own: bool) -> None:
        """A consumer that joins was told this count: by this broker (`is_own`), or by one that held the subscription
        before. The latter may have died before it told other brokers how many it dropped. What this consumer was told
        of may be among what it says is done, and is not counted here then: so this count goes on from there. What is
        still here is handed out, or counted once more."""
        upto = min(upto, CLAIMED_MAX)
        more = 0 if is_own else max(0, upto - self._counted_before)
        self._counted_before += more
        self.add(more)
        known = min(upto, self.messages if is_own else self._counted_before)
        self._heard = min(max(self._heard + more, known), self.messages)
        self._told = min(max(self._told + more, self._heard), self.messages)


class DroppedItems:
    """Items of which messages were dropped, kept in the log until other brokers were told how many.

    A broker that dies before that takes the number with it; then the next one has the messages.
    """

    __slots__ = ("_ids", "_told", "_untold")

    def __init__(self) -> None:
        self._ids: set[int] = set()
        """Items of which something was dropped since other brokers were told."""
        self._untold: list[HeldBundle] = []
        """Of these, the ones that are done."""
        self._told: list[HeldBundle] = []

    def __contains__(self, item: HeldBundle) -> bool:
        return id(item) in self._ids

    def __iter__(self) -> Iterator[HeldBundle]:
        return iter([*self._untold, *self._told])

    def note(self, item: HeldBundle) -> None:
        """Messages of this item were dropped."""
        self._ids.add(id(item))

    def keep(self, item: HeldBundle) -> None:
        """Keep an item that is done."""
        self._untold.append(item)

    def tell(self) -> None:
        """Note that other brokers are told in this step."""
        self._told += self._untold
        self._untold = []
        self._ids.clear()

    def take_told(self) -> list[HeldBundle]:
        told, self._told = self._told, []
        return told
