"""Retained messages: the last one of each topic, found by topic filter.

Brokers hear the same publications in orders that may differ, so the last one is not the one that comes last. Messages
of a topic are ordered by (stamp, publisher, epoch, number), and the greatest stays. The broker of the publisher sets
the stamp (`next_stamp`): the time since 1970, and more than that of the message that it replaces. So a publisher that
has seen a retained message replaces it, and of two at once all brokers keep the same.

A removal (an empty payload) and an expiry leave a tombstone with this order, so that an older message that comes later
stays away. Tombstones are forgotten after `TOMBSTONE_US`, and the oldest first when there are too many.

The store has bounds for topics and bytes. A message beyond them is not kept, and counted: brokers refuse the
publication before (`fits`).
"""

import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

from resprout.core.errors import UsageError
from resprout.core.message import Message
from resprout.filters.predicate import is_plain
from resprout.mqtt.mapping import expires_us, is_retained
from resprout.mqtt.topic_tree import TopicTree

STAMP: Final = "mqtt.stamp"
LEAD_US: Final = 24 * 3_600 * 1_000_000
"""A stamp that is further ahead of the clock of a broker is refused: nothing could replace the message."""
TOMBSTONE_US: Final = 3_600 * 1_000_000
MESSAGE_BYTES: Final = 512
"""What a message counts for beside its payload, topic and attributes."""

LEVEL_BYTES: Final = 320
"""What each further level of its topic counts for."""


class Order(NamedTuple):
    """The greatest order of a topic wins."""

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
        """Of all messages, as `size_of` counts them."""
        self.refused = 0
        """Messages that were not kept because there was no room, or because their stamp was too far ahead."""
        self._kept: dict[str, _Kept] = {}
        self._tree: TopicTree[_Kept] = TopicTree()
        self._tombstones: dict[str, tuple[Order, int]] = {}
        """By topic: the order of the removal, and when it came. The oldest first."""
        self._expiries: list[tuple[int, str]] = []
        """A heap of moments and topics; one that is out of date is skipped."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def expiries(self) -> int:
        """Entries of the queue of expiries; some of them are out of date."""
        return len(self._expiries)

    # -- one topic -----------------------------------------------------------------------------------------------------

    def next_stamp(self, topic: str, wall_us: int) -> int:
        """The stamp of a publication that shall replace what is retained now."""
        known = self._order(topic)
        return wall_us if known is None else max(wall_us, known.stamp + 1)

    def fits(self, topic: str, size: int) -> bool:
        """Whether a message of this size (`size_of`) would be kept."""
        old = self._kept.get(topic)
        if old is None and len(self._kept) >= self.topics_max:
            return False
        return self.bytes - (0 if old is None else old.size) + size <= self.bytes_max

    def put(self, message: Message, wall_us: int) -> bool:
        """Keep a message that is to be retained, or remove what is retained if its payload is empty. Return whether
        anything changed: not for a message that is older than what is known of its topic."""
        if not is_retained(message.attributes):
            return False
        topic = message.topic
        known = self._order(topic)
        stamp = message.attributes.get(STAMP)
        if type(stamp) is not int or stamp < 0:  # a native client sets none: then the last one that comes stays
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
            self._remove(topic, order, wall_us)  # what it replaces is out of date in any case
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
            if len(self._expiries) > 2 * len(self._kept) + 64:  # most of it is out of date
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
        """The retained messages that a subscription matches, but for those that have expired."""
        if is_plain(topic_filter):
            message = self.get(topic_filter, wall_us)
            return [] if message is None else [message]
        return [kept.message for kept in self._tree.match(topic_filter) if not _is_over(kept, wall_us)]

    def expire(self, wall_us: int) -> int:
        """Remove messages that have expired and tombstones that are old; return how many messages."""
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
        """Everything that is retained."""
        for kept in self._kept.values():
            yield kept.order, kept.message

    def removals(self) -> Iterator[tuple[Order, str]]:
        """Topics whose message was removed, with the order of the removal."""
        for topic, (order, _) in self._tombstones.items():
            yield order, topic

    def merge(self, order: Order, topic: str, message: Message | None, wall_us: int) -> bool:
        """Take over what another broker knows of a topic: a message, or None for a removal."""
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
    """What a message counts for against the bound of the store."""
    size = MESSAGE_BYTES + len(message.payload) + 4 * len(message.topic) + LEVEL_BYTES * message.topic.count("/")
    for name, value in message.attributes.items():
        size += 128 + 4 * len(name) + (4 * len(value) if isinstance(value, str) else 0)
    return size
