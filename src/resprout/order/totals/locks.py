"""The locks that one broker knows: undelivered totals in the one order that the root gave them.

Totals become *active* in that order, each as soon as it is known, also when they share keys, and they are delivered in
that order. Nobody waits for anybody else to close: brokers say of each that it is closed in the same order on every
link, so the next one is never closed before the one before it.

A pair (topic, key) is closed to plain publications while any active total names it. A total without keys is a barrier
for nothing else, and neither is a publication that is only carried as a total (`totals`): it has asked for less.
"""

from collections import deque

from resprout.core.bundle import Bundle, Pair, pairs_of
from resprout.core.guarantee import Guarantee
from resprout.order.messages import TotalId, TotalPlace, id_of


class LockRecord:
    """One total with a place, and how far it is from its delivery."""

    __slots__ = ("active", "bundle", "floor", "heard", "id", "is_repeat", "pairs", "place", "prompt", "stamp", "told")

    def __init__(self, place: TotalPlace, bundle: Bundle, prompt: bool = False, is_repeat: bool = False) -> None:
        self.id = id_of(bundle)
        self.place = place
        self.bundle = bundle
        """With its final stamp once it is delivered."""
        self.prompt = prompt
        """Its publisher waits for receipts, as far as is known: a repair does not hand it on."""
        self.is_repeat = is_repeat
        """Its number was seen here before it had a place: it is closed like any other, and no reader here gets it."""
        is_barrier = bundle.guarantee is Guarantee.TOTAL
        self.pairs: tuple[Pair, ...] = pairs_of(bundle.topic, bundle.keys) if is_barrier else ()
        self.heard: dict[str, int] = {}
        """Neighbours whose side is closed, and the highest stamp there."""
        self.told: dict[str, int] = {}
        """Neighbours that were told that everything on this side of them is closed."""
        self.active = False
        """Nothing is published here on its keys but what has a place behind it."""
        self.floor = 0
        """The clock when it became active: what was published here before has a lower stamp."""
        self.stamp: int | None = None
        """Its final stamp, the same at every broker; None until it is delivered here."""


class LockTable:
    """Records by total. A delivered one stays until `forget`, because a repair may have to hand it on."""

    __slots__ = ("_closed", "_idle", "_line", "records", "undelivered")

    def __init__(self) -> None:
        self.records: dict[TotalId, LockRecord] = {}
        self.undelivered: dict[TotalId, LockRecord] = {}
        self._line: deque[LockRecord] = deque()
        """The undelivered ones in the order of their places."""
        self._idle: dict[TotalId, LockRecord] = {}
        """Not yet active."""
        self._closed: dict[Pair, int] = {}
        """Pairs of active totals, and of how many."""

    def add(self, record: LockRecord) -> None:
        self.records[record.id] = self.undelivered[record.id] = self._idle[record.id] = record
        line = self._line
        place = len(line)
        while place and line[place - 1].place > record.place:  # none: locks come in order, but peers may lie
            place -= 1
        line.insert(place, record)

    def in_line(self) -> list[LockRecord]:
        """The undelivered ones, the next one first."""
        return list(self._line)

    @property
    def first(self) -> LockRecord | None:
        """The one that is delivered next."""
        return self._line[0] if self._line else None

    def take_idle(self) -> list[LockRecord]:
        """Those that are to become active now, in the order of their places."""
        idle = sorted(self._idle.values(), key=lambda record: record.place) if self._idle else []
        self._idle.clear()
        return idle

    def activate(self, record: LockRecord, floor: int) -> None:
        self._idle.pop(record.id, None)
        record.active = True
        record.floor = floor
        for pair in record.pairs:
            self._closed[pair] = self._closed.get(pair, 0) + 1

    def deliver(self, record: LockRecord, stamp: int) -> None:
        """It has its final stamp, and holds its keys no longer."""
        record.bundle = record.bundle.stamped(stamp)
        record.stamp = stamp
        record.heard = {}
        record.told = {}
        del self.undelivered[record.id]
        self._idle.pop(record.id, None)
        self._line.remove(record)  # nearly always the first
        for pair in record.pairs if record.active else ():
            if self._closed[pair] == 1:
                del self._closed[pair]
            else:
                self._closed[pair] -= 1

    def keep(self, record: LockRecord) -> None:
        """One that was delivered elsewhere, and never will be here."""
        record.stamp = record.bundle.stamp
        self.records[record.id] = record

    def forget(self, id: TotalId) -> None:
        record = self.records.get(id)
        if record is not None:
            assert record.stamp is not None, "a total leaves no log before it has entered it"
            del self.records[id]

    def is_gated(self, bundle: Bundle) -> bool:
        """Whether an active total names a pair that the bundle names too."""
        closed = self._closed
        return bool(closed) and any(pair in closed for pair in pairs_of(bundle.topic, bundle.keys))
