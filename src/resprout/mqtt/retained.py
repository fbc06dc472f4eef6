"""Retained message store: the last message of each topic, searchable by topic filter.

Brokers may receive the same publications in different orders, so arrival order cannot decide which message is the last.
Messages of a topic are ordered by (stamp, publisher, epoch, number), and the greatest is kept. The publisher's broker
sets the stamp (`next_stamp`): microseconds since 1970, and greater than the stamp of the message being replaced. So a
publisher that has received a retained message replaces it, and all brokers keep the same one of two concurrent
messages.

A removal (empty payload) or an expiry leaves a tombstone with its order, so that an older message that arrives later is
ignored. Tombstones are dropped after `TOMBSTONE_US`, and oldest first if there are too many.

The store limits the number of topics and bytes. Brokers refuse a publication that does not fit (`fits`); if one arrives
anyway, the store drops and counts it.
"""

import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

from resprout.core.errors import UsageError
from resprout.core.message import Message
from resprout.filters.predicate import is_plain
from resprout.filters.topic_tree import TopicTree
from resprout.mqtt.mapping import expires_us, is_retained

STAMP: Final = "mqtt.stamp"
LEAD_US: Final = 24 * 3_600 * 1_000_000
"""Maximum lead of a stamp over the local clock. A message with a larger one is refused, because no later message could
replace it."""
TOMBSTONE_US: Final = 3_600 * 1_000_000
MESSAGE_BYTES: Final = 512
"""Bytes charged per message in addition to its payload, topic and attributes."""

LEVEL_BYTES: Final = 320
"""Bytes charged per topic level after the first."""


class Order(NamedTuple):
    """Order of a message within its topic; the greatest is kept."""

    stamp: int
    publisher: str
    epoch: int
    seq: int


class _Kept:
    __slots__ = ("expires_us", "message", "order", "size")

    def __init__(self, order: Order, message: Message, size: int, expires: int) -> None:
        self.order = order
        self.message = message
        self.size = size
        self.expires_us = expires


class RetainedStore:
    def __init__(self, bytes_max: int = 64 << 20, topics_max: int = 100_000, tombstones_max: int = 100_000) -> None:
        for name, value in (("bytes_max", bytes_max), ("topics_max", topics_max), ("tombstones_max", tombstones_max)):
            if value < 0:
                raise UsageError(f"{name} must be 0 or more, not {value}")
        self.bytes_max = bytes_max
        self.topics_max = topics_max
        self.tombstones_max = tombstones_max
        self.bytes = 0
        """Size of all messages in bytes, as computed by `size_of`."""
        self.refused = 0
        """Messages dropped because the store was full or their stamp was too far ahead."""
        self._kept: dict[str, _Kept] = {}
        self._tree: TopicTree[_Kept] = TopicTree()
        self._tombstones: dict[str, tuple[Order, int]] = {}
        """Order of the removal and time it was stored, by topic, oldest first."""
        self._expiries: list[tuple[int, str]] = []
        """Heap of expiry times and topics; stale entries are skipped."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def expiries(self) -> int:
        """Number of entries in the expiry heap, including stale ones."""
        return len(self._expiries)

    # -- one topic -----------------------------------------------------------------------------------------------------

    def next_stamp(self, topic: str, wall_us: int) -> int:
        """Return the stamp for a publication that replaces the current retained message of the topic."""
        known = self._order(topic)
        return wall_us if known is None else max(wall_us, known.stamp + 1)

    def fits(self, topic: str, size: int) -> bool:
        """Return whether a message of this size (`size_of`) fits in the store."""
        old = self._kept.get(topic)
        if old is None and len(self._kept) >= self.topics_max:
            return False
        return self.bytes - (0 if old is None else old.size) + size <= self.bytes_max

    def put(self, message: Message, wall_us: int) -> bool:
        """Store a retained message; an empty payload removes the current one. Return False if nothing changed because
        the message is older than the known one."""
        if not is_retained(message.attributes):
            return False
        topic = message.topic
        known = self._order(topic)
        stamp = message.attributes.get(STAMP)
        if type(stamp) is not int or stamp < 0:  # native clients set no stamp: the last arrival wins
            stamp = wall_us if known is None else max(wall_us, known.stamp + 1)
        if stamp > wall_us + LEAD_US:
            self.refused += 1
            return False
        order = Order(stamp, message.publisher, message.epoch, message.seq)
        if known is not None and order <= known:
            return False
        expires = expires_us(message.attributes)
        if not message.payload or (expires and expires <= wall_us):
            self._remove(topic, order, wall_us)
            return True
        size = size_of(message)
        if not self.fits(topic, size):
            self.refused += 1
            self._remove(topic, order, wall_us)  # the message that it replaces is stale in any case
            return False
        self._keep(_Kept(order, message, size, expires))
        return True

    def get(self, topic: str, wall_us: int) -> Message | None:
        kept = self._kept.get(topic)
        return None if kept is None or _is_over(kept, wall_us) else kept.message

    def _order(self, topic: str) -> Order | None:
        kept = self._kept.get(topic)
        if kept is not None:
            return kept.order
        tombstone = self._tombstones.get(topic)
        return None if tombstone is None else tombstone[0]

    def _keep(self, kept: _Kept) -> None:
        topic = kept.message.topic
        old = self._kept.get(topic)
        self.bytes += kept.size - (0 if old is None else old.size)
        self._kept[topic] = kept
        self._tree.put(topic, kept)
        self._tombstones.pop(topic, None)
        if kept.expires_us:
            heapq.heappush(self._expiries, (kept.expires_us, topic))
            if len(self._expiries) > 2 * len(self._kept) + 64:  # mostly stale entries
                self._expiries = [(each.expires_us, name) for name, each in self._kept.items() if each.expires_us]
                heapq.heapify(self._expiries)

    def _remove(self, topic: str, order: Order, wall_us: int) -> None:
        old = self._kept.pop(topic, None)
        if old is not None:
            self.bytes -= old.size
            self._tree.remove(topic)
        self._tombstones.pop(topic, None)
        self._tombstones[topic] = (order, wall_us)
        while len(self._tombstones) > self.tombstones_max:
            del self._tombstones[next(iter(self._tombstones))]

    # -- many topics ---------------------------------------------------------------------------------------------------

    def match(self, topic_filter: str, wall_us: int) -> list[Message]:
        """Return the unexpired retained messages whose topics match the filter."""
        if is_plain(topic_filter):
            message = self.get(topic_filter, wall_us)
            return [] if message is None else [message]
        return [kept.message for kept in self._tree.match(topic_filter) if not _is_over(kept, wall_us)]

    def expire(self, wall_us: int) -> int:
        """Remove expired messages and old tombstones; return the number of removed messages."""
        removed = 0
        while self._expiries and self._expiries[0][0] <= wall_us:
            due, topic = heapq.heappop(self._expiries)
            kept = self._kept.get(topic)
            if kept is not None and kept.expires_us == due:
                self._remove(topic, kept.order, wall_us)
                removed += 1
        while self._tombstones:
            topic = next(iter(self._tombstones))
            if self._tombstones[topic][1] > wall_us - TOMBSTONE_US:
                break
            del self._tombstones[topic]
        return removed

    def messages(self) -> Iterator[tuple[Order, Message]]:
        """Iterate over all retained messages with their order."""
        for kept in self._kept.values():
            yield kept.order, kept.message

    def removals(self) -> Iterator[tuple[Order, str]]:
        """Iterate over all tombstones: the order of the removal and the topic."""
        for topic, (order, _) in self._tombstones.items():
            yield order, topic

    def merge(self, order: Order, topic: str, message: Message | None, wall_us: int) -> bool:
        """Merge the state of a topic from another broker: a message, or None for a removal. Return whether anything
        changed."""
        known = self._order(topic)
        if (known is not None and order <= known) or order.stamp > wall_us + LEAD_US:
            return False
        size = 0 if message is None else size_of(message)
        expires = 0 if message is None else expires_us(message.attributes)
        if message is None or (expires and expires <= wall_us):
            self._remove(topic, order, wall_us)
        elif self.fits(topic, size):
            self._keep(_Kept(order, message, size, expires))
        else:
            self.refused += 1
            return False
        return True


def _is_over(kept: _Kept, wall_us: int) -> bool:
    return kept.expires_us != 0 and kept.expires_us <= wall_us


def size_of(message: Message) -> int:
    """Return the number of bytes that a message is charged in the store."""
    size = MESSAGE_BYTES + len(message.payload) + 4 * len(message.topic) + LEVEL_BYTES * message.topic.count("/")
    for name, value in message.attributes.items():
        size += 128 + 4 * len(name) + (4 * len(value) if isinstance(value, str) else 0)
    return size
