"""Messages from the tree to the machine of one session, and from there to their acknowledgement (`DeliveryQueue`)."""

from collections import deque
from collections.abc import Sequence

import msgspec

from resprout.core.message import Message
from resprout.mqtt_sessions.sources import DurableSource


class _Given(msgspec.Struct):
    """Message that was passed to the machine and is not done."""

    source: DurableSource | None
    """Durable subscription that delivered it; None for plain subscriptions."""
    message: Message
    is_last: bool
    """Whether it is the last message of its delivery."""


class DeliveryQueue:
    __slots__ = ("_given", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[DurableSource | None, deque[Message]]] | None = None
        """Deliveries that were not passed to the machine yet; None before the first one, because a deque takes 760
        bytes."""
        self._given: list[_Given] = []
        """Messages that were passed to the machine and are not done, in order."""

    def __bool__(self) -> bool:
        """Whether messages wait."""
        return bool(self._waiting)

    def put(self, source: DurableSource | None, messages: Sequence[Message]) -> None:
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((source, deque(messages)))

    def take(self) -> tuple[DurableSource | None, Message]:
        """Return the next message, to pass it to the machine, and its durable subscription."""
        assert self._waiting, "there is one"
        source, messages = self._waiting[0]
        message = messages.popleft()
        if not messages:
            self._waiting.popleft()
        self._given.append(_Given(source, message, not messages))
        return source, message

    def acknowledge(self, count: int) -> int:
        """Acknowledge the next `count` messages to their durable subscriptions. Return how many deliveries of plain
        subscriptions are done."""
        deliveries = 0
        done: dict[DurableSource, list[Message]] = {}
        taken, self._given = self._given[:count], self._given[count:]
        for given in taken:
            if given.source is None:
                deliveries += given.is_last
            else:
                done.setdefault(given.source, []).append(given.message)
        for source, messages in done.items():
            source.acknowledge(messages)
        return deliveries
