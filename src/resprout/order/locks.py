"""The locks that one broker knows: which totals hold which keys, in the order that the root gave them.

Each (topic, key) pair has a queue of the undelivered totals that name it. A total becomes *active* when it is first in
all its queues. Queues follow one order, so no set of keys can make totals wait for each other in a circle.

A total without keys is no barrier for anything else, but such totals of one topic still follow one order: they queue
for the topic under an empty key, which no publication can name.

Totals of one publisher are delivered as it made them, whatever they name. They need not wait for each other to close,
though: a total becomes active only when all earlier ones of its publisher are, and is delivered only when they are.
Floors never fall then, at any broker, from one of them to the next, and so the later one has no lower stamp; where
stamps are equal, the numbers that the publisher gave decide.
"""

from collections import deque
from collections.abc import Hashable
from typing import TypeVar

from resprout.core.bundle import Bundle
from resprout.core.keys import Pair, pairs_of
from resprout.order.total_messages import Place, TotalId, id_of

Key = TypeVar("Key", bound=Hashable)


class LockRecord:
    """One total with a place, and how far it is from its delivery."""

    __slots__ = ("active", "bundle", "floor", "heard", "id", "pairs", "place", "stamp", "told")

    def __init__(self, place: Place, bundle: Bundle) -> None:
        self.id = id_of(bundle)
        self.place = place
        self.bundle = bundle
        """With its final stamp once it is delivered."""
        self.pairs: tuple[Pair, ...] = pairs_of(bundle.topic, bundle.keys) or ((bundle.topic, ""),)
        self.heard: dict[str, int] = {}
        """Neighbours whose side is closed, and the highest stamp there."""
        self.told: dict[str, int] = {}
        """Neighbours that were told that everything on this side of them is closed."""
        self.active = False
        """Local publications on its keys wait."""
        self.floor = 0
        """The clock when it became active: what was published here before has no higher stamp."""
        self.stamp: int | None = None
        """Its final stamp, the same at every broker; None until it is delivered here."""


class LockTable:
    """Records by total. A delivered one stays until `forget`, because a repair may have to hand it on."""

    __slots__ = ("_closed", "_first", "_lines", "_queues", "_waiting_lines", "records", "undelivered")

    def __init__(self) -> None:
        self.records: dict[TotalId, LockRecord] = {}
        self.undelivered: dict[TotalId, LockRecord] = {}
        self._queues: dict[Pair, deque[LockRecord]] = {}
        self._lines: dict[str, deque[LockRecord]] = {}
        """By publisher: the undelivered ones."""
        self._waiting_lines: dict[str, deque[LockRecord]] = {}
        """By publisher: those of them that are not yet active."""
        self._closed: dict[Pair, int] = {}
        """Pairs of active totals, and of how many: two only for a moment, when a repair brings an earlier one."""
        self._first: dict[TotalId, LockRecord] = {}
        """Not yet active, and perhaps first in all their queues now."""

    def add(self, record: LockRecord) -> None:
        self.records[record.id] = self.undelivered[record.id] = record
        for pair in record.pairs:
            _enqueue(self._queues.setdefault(pair, deque()), record)
        publisher = record.bundle.publisher
        _enqueue(self._lines.setdefault(publisher, deque()), record)
        _enqueue(self._waiting_lines.setdefault(publisher, deque()), record)
        self._first[record.id] = record

    def take_ready(self) -> list[LockRecord]:
        """Those that may become active now, earliest first."""
        if not self._first:
            return []
        ready = [r for r in self._first.values() if not r.active and self._is_first(r)]
        self._first.clear()
        return sorted(ready, key=lambda record: record.place)

    def _is_first(self, record: LockRecord) -> bool:
        if record.stamp is not None or self._waiting_lines[record.bundle.publisher][0] is not record:
            return False
        return all(self._queues[pair][0] is record for pair in record.pairs)

    def is_next(self, record: LockRecord) -> bool:
        """All earlier ones of its publisher are delivered."""
        return self._lines[record.bundle.publisher][0] is record

    def activate(self, record: LockRecord, floor: int) -> None:
        record.active = True
        record.floor = floor
        self._step_out(self._waiting_lines, record.bundle.publisher, record)
        for pair in record.pairs:
            self._closed[pair] = self._closed.get(pair, 0) + 1

    def deliver(self, record: LockRecord, stamp: int) -> LockRecord | None:
        """It has its final stamp, and its keys are free for the next. The next of its publisher, if there is one."""
        record.bundle = record.bundle.stamped(stamp)
        record.stamp = stamp
        record.heard = {}
        record.told = {}
        del self.undelivered[record.id]
        publisher = record.bundle.publisher
        if not record.active:
            self._step_out(self._waiting_lines, publisher, record)
        for pair in record.pairs:
            if record.active:
                self._reopen(pair)
            self._step_out(self._queues, pair, record)
        line = self._lines[publisher]
        line.remove(record)  # nearly always the first
        if not line:
            del self._lines[publisher]
        return line[0] if line else None

    def _step_out(self, queues: dict[Key, deque[LockRecord]], key: Key, record: LockRecord) -> None:
        """Of a queue; whoever is first now may be ready."""
        queue = queues[key]
        queue.remove(record)  # nearly always the first
        if queue:
            self._first[queue[0].id] = queue[0]
        else:
            del queues[key]

    def _reopen(self, pair: Pair) -> None:
        if self._closed[pair] == 1:
            del self._closed[pair]
        else:
            self._closed[pair] -= 1

    def forget(self, id: TotalId) -> None:
        record = self.records.get(id)
        if record is not None:
            assert record.stamp is not None, "a total leaves no log before it has entered it"
            del self.records[id]

    def is_closed(self, bundle: Bundle) -> bool:
        """Whether an active total names a pair that the bundle names too."""
        closed = self._closed
        return bool(closed) and any(pair in closed for pair in pairs_of(bundle.topic, bundle.keys))

    def blockers(self, record: LockRecord) -> list[LockRecord]:
        """The totals that must be delivered before this one: the first of each queue it waits in."""
        queues = [*(self._queues[pair] for pair in record.pairs), self._lines[record.bundle.publisher]]
        first = {queue[0].id: queue[0] for queue in queues if queue[0] is not record}
        return list(first.values())


def _enqueue(queue: deque[LockRecord], record: LockRecord) -> None:
    place = len(queue)
    while place and queue[place - 1].place > record.place:  # mostly none: locks come in order
        place -= 1
    queue.insert(place, record)
