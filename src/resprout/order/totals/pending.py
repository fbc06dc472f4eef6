"""Totals that are not delivered yet: on their way up to the root (`Submissions`), and with a place (`LockTable`).

`Submissions` also knows how far each publisher's totals have been ordered. A broker keeps what it passed up until the
lock comes down, so that nothing is lost with a broker above: a broker that gets a new parent submits again. What is not
newer than its publisher's last ordered total has been ordered already; that makes submitting again harmless. A
publisher that returns in the same life may repeat totals with other boundaries: of a bundle that was ordered in part,
the rest is ordered.

`Backlog` counts the totals that are under way, and the publications that are carried as totals: whose they are, and how
many and how heavy all together. Every broker knows nearly all of them, so every broker can compute a fair share: a
client has no more under way than the bound for all, divided by the clients that have any, and always one. The client
with the most is held back first, wherever it is; what it publishes then waits in its queue, and a long queue holds the
client back in turn. Keys play no part: a hot key delays nobody who does not publish on it. Honest brokers exceed the
bounds for all only by what was under way when they were reached. The hard bounds are far beyond that.

`LockTable` holds the undelivered totals that have a place, in the one order that the root gave them. Totals become
*active* in that order, each as soon as it is known, also when they share keys, and they are delivered in that order.
They close side by side: brokers send `Closed` for them in the same order on every link, so a later total is never
closed before an earlier one.

A pair (topic, key) is closed to plain publications while any active total names it. A total without keys closes no
pair, and neither does a publication that is only carried as a total (`totals`).
"""

import contextlib
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from resprout.core.bundle import Bundle, Pair, pairs_of, split
from resprout.core.errors import PeerError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark, Marks
from resprout.order.messages import TotalId, TotalPlace, id_of

FULL_TOTALS: Final = 4_096
FULL_BYTES: Final = 64 << 20
"""Bounds on the totals of all clients that are under way, in bundles and bytes. Clients share them equally."""
OWN_TOTALS: Final = 64
OWN_BYTES: Final = 4 << 20
"""Bounds on the totals of one client that are under way, in bundles and bytes."""
UNORDERED_TOTALS: Final = 16
"""Bound on the totals of one client that have no place yet. Other brokers do not know of these, so they cannot count
them when they compute shares."""

HARD_FACTOR: Final = 16
"""A peer that brings more than this many times `FULL_TOTALS` or `FULL_BYTES` loses its session."""

PUBLISHERS_KEPT: Final = 10_000
"""Publishers that are remembered for certain, the latest ones; up to twice as many are. A total that comes again after
so many others is still found old by the watermark of its stream, unless its publisher has begun a new life since."""

_STREAM: Final = Guarantee.TOTAL.stream

LifeAndNumber = tuple[int, int]
"""(incarnation, number) of a publication; they compare in the order of publishing."""


class Backlog:
    """Counts the totals that are under way, by publisher, and tells whether a client may have one more."""

    __slots__ = ("_bytes", "_bytes_of", "_of", "count")

    def __init__(self) -> None:
        self._of: dict[str, dict[TotalId, Bundle]] = {}
        self._bytes_of: dict[str, int] = {}
        self._bytes = 0
        self.count = 0

    def add(self, id: TotalId, bundle: Bundle) -> None:
        """Count a total; do nothing if it is counted already."""
        mine = self._of.setdefault(bundle.publisher, {})
        if id not in mine:
            mine[id] = bundle
            self.count += 1
            self._bytes += bundle.cost
            self._bytes_of[bundle.publisher] = self._bytes_of.get(bundle.publisher, 0) + bundle.cost

    def remove(self, id: TotalId) -> None:
        mine = self._of.get(id[0], {})
        bundle = mine.pop(id, None)
        if bundle is not None:
            self.count -= 1
            self._bytes -= bundle.cost
            self._bytes_of[id[0]] -= bundle.cost
            if not mine:
                del self._of[id[0]], self._bytes_of[id[0]]

    def has(self, id: TotalId) -> bool:
        return id in self._of.get(id[0], ())

    def has_any(self, publisher: str) -> bool:
        return publisher in self._of

    def of(self, publisher: str) -> tuple[Bundle, ...]:
        """Return the totals of a publisher that are under way, oldest first."""
        return tuple(self._of.get(publisher, {}).values())

    def has_room_for(self, publisher: str) -> bool:
        """Whether a local client may have one more under way."""
        mine = self._of.get(publisher)
        if mine is None:  # always one, unless so many have one that brokers could be blamed for passing theirs on
            return self.count < HARD_FACTOR * FULL_TOTALS // 4 and self._bytes < HARD_FACTOR * FULL_BYTES // 4
        sharing = len(self._of)
        return len(mine) < min(OWN_TOTALS, FULL_TOTALS // sharing) and self._bytes_of[publisher] < min(
            OWN_BYTES, FULL_BYTES // sharing
        )

    def check_room(self, count: int = 1, cost: int = 0) -> None:
        """Raise PeerError when `count` more totals of `cost` bytes together would exceed the hard bounds."""
        if self.count + count > HARD_FACTOR * FULL_TOTALS or self._bytes + cost > HARD_FACTOR * FULL_BYTES:
            raise PeerError(f"{self.count + count} undelivered totals of {self._bytes + cost} bytes are too many")


class LastPlaces:
    """The last total of each publisher that has a place in the order. Two generations: what is met again moves to the
    young one, and when that is full the old one is forgotten."""

    __slots__ = ("_old", "_reached")

    def __init__(self) -> None:
        self._reached: dict[str, LifeAndNumber] = {}
        self._old: dict[str, LifeAndNumber] = {}

    def is_newer(self, id: TotalId) -> bool:
        return id[1:] > self._get(id[0])

    def note(self, mark: Mark) -> None:
        """`mark.seq` is the last number of the total's bundle."""
        self._reached[mark.publisher] = max((mark.incarnation, mark.seq), self._get(mark.publisher))
        if len(self._reached) > PUBLISHERS_KEPT:
            self._old, self._reached = self._reached, {}

    def rest(self, bundle: Bundle) -> Bundle:
        """Return the part of a bundle that has no place; all of it if there is no such part or it cannot be split."""
        incarnation, number = self._get(bundle.publisher)
        if incarnation == bundle.incarnation and bundle.first <= number < bundle.last:
            with contextlib.suppress(WireError):
                return split(bundle, number)[1]
        return bundle

    def marks(self) -> Marks:
        return tuple([Mark(name, _STREAM, *at) for name, at in {**self._old, **self._reached}.items()])

    def _get(self, publisher: str) -> LifeAndNumber:
        return self._reached.get(publisher) or self._old.get(publisher, (0, 0))


Dropped = tuple[Bundle, tuple[str, ...]]
"""A total that waited for its place and was ordered elsewhere, and the neighbours that had submitted it."""


class Submissions:
    """Totals that were submitted and have no place yet, and the last total of each publisher that has one."""

    __slots__ = ("_backlog", "_sources", "last", "waiting")

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self.last = LastPlaces()
        self.waiting: dict[TotalId, Bundle] = {}
        """Totals without a place, in the order in which they were submitted."""
        self._sources: dict[TotalId, dict[str, None]] = {}
        """By total without a place: the neighbours that have submitted it."""

    def keep(self, id: TotalId, bundle: Bundle, source: str | None = None) -> None:
        """`source`: the neighbour that submits it; None for a local client."""
        known = self.waiting.get(id)
        if known is None or known.last <= bundle.last:
            self.waiting[id] = bundle
        if source is not None:
            self._sources.setdefault(id, {})[source] = None
        self._backlog.add(id, bundle)

    def sources(self, id: TotalId) -> tuple[str, ...]:
        """Return the neighbours that have submitted a total that waits."""
        return tuple(self._sources.get(id, ()))

    def locked(self, id: TotalId, bundle: Bundle) -> list[Dropped]:
        """Note that a total has its place; it stays in the backlog until it is delivered. Returns what `note_ordered`
        does."""
        waiting = self.waiting.get(id)
        if waiting is not None and waiting.last == bundle.last:
            del self.waiting[id]
            self._sources.pop(id, None)
        dropped = self.note_ordered((Mark(bundle.publisher, bundle.stream, bundle.incarnation, bundle.last),))
        self._backlog.add(id, bundle)
        return dropped

    def drop(self, id: TotalId) -> None:
        if self.waiting.pop(id, None) is not None:
            self._backlog.remove(id)
        self._sources.pop(id, None)

    def note_ordered(self, marks: Iterable[Mark]) -> list[Dropped]:
        """Note the last ordered total of these publishers. Drop waiting totals that are not newer, and return them with
        the neighbours that have submitted them: they have a place, or a newer life of their publisher has overtaken
        them. Of a bundle that was ordered in part, the rest waits."""
        dropped: list[Dropped] = []
        for mark in marks:
            self.last.note(mark)
            for id in [id_of(bundle) for bundle in self._backlog.of(mark.publisher)]:
                if id in self.waiting and not self.last.is_newer(id):
                    rest = self.last.rest(self.waiting[id])
                    if rest is self.waiting[id]:
                        dropped.append((rest, self.sources(id)))
                        self.drop(id)
                    else:
                        self._replace(id, rest)
        return dropped

    def _replace(self, id: TotalId, rest: Bundle) -> None:
        """Replace a waiting bundle by its rest, in the same place: `resubmit` goes by this order."""
        waiting, self.waiting = self.waiting, {}
        self._backlog.remove(id)
        if (sources := self._sources.pop(id, None)) is not None:
            self._sources[id_of(rest)] = sources
        for each, bundle in waiting.items():
            if each == id:
                self.keep(id_of(rest), rest)
            else:
                self.keep(each, bundle)


class RootPublication(NamedTuple):
    """How a total came that the root has published."""

    hops: int
    """Links between brokers that it has crossed."""
    source: str | None
    """The neighbour that sent it; None at the root, and in a repair."""
    asked: tuple[str, ...]
    """Neighbours that have submitted it, so that they are told whether they want it or not."""


class LockRecord:
    """One total with a place, and how far it is from its delivery."""

    __slots__ = (
        "active", "bundle", "floor", "heard", "id", "is_repeat", "may_be_scoped", "pairs", "place", "prompt",
        "publication", "root_ordered", "stamp", "told",
    )  # fmt: skip

    def __init__(self, place: TotalPlace, bundle: Bundle, prompt: bool = False, is_repeat: bool = False) -> None:
        self.id = id_of(bundle)
        self.place = place
        self.bundle = bundle
        """The bundle; it carries its final stamp once it is delivered."""
        self.prompt = prompt
        """Whether its publisher waits for receipts, as far as is known: a repair does not hand it on."""
        self.is_repeat = is_repeat
        """Whether its number was seen here before it had a place. It is closed like any other, but no reader here gets
        it."""
        is_barrier = bundle.guarantee is Guarantee.TOTAL
        self.pairs: tuple[Pair, ...] = pairs_of(bundle.topic, bundle.keys) if is_barrier else ()
        """(topic, key) pairs that it closes to plain publications; none for a carried publication."""
        self.heard: dict[str, int] = {}
        """By neighbour that sent `Closed`: the stamp that it stated."""
        self.told: dict[str, int] = {}
        """By neighbour that was sent `Closed`: the stamp that it was told."""
        self.active = False
        """Whether its keys are closed here: publications on them are carried, and get places behind it."""
        self.floor = 0
        """This broker's clock when it became active: everything that was published here before has a lower stamp."""
        self.stamp: int | None = None
        """Its final stamp, the same at every broker; None until it is delivered here."""
        self.root_ordered = False
        """Whether its topics are root-ordered with it (`order.totals.root_order`)."""
        self.publication: RootPublication | None = None
        """How it came, if the root has published it: nobody closes it, and its bundle has the final stamp."""
        self.may_be_scoped = False
        """At the root: whether it is closed only because others were being closed when it came."""


class LockTable:
    """Records by total. A delivered one stays until `forget`, because a repair may have to hand it on."""

    __slots__ = ("_closed", "_idle", "_line", "records", "undelivered")

    def __init__(self) -> None:
        self.records: dict[TotalId, LockRecord] = {}
        self.undelivered: dict[TotalId, LockRecord] = {}
        self._line: deque[LockRecord] = deque()
        """The undelivered totals in the order of their places."""
        self._idle: dict[TotalId, LockRecord] = {}
        """Totals that are not active yet."""
        self._closed: dict[Pair, int] = {}
        """By pair that is closed: how many active totals name it."""

    def add(self, record: LockRecord) -> None:
        self.records[record.id] = self.undelivered[record.id] = record
        if record.publication is None:
            self._idle[record.id] = record
        line = self._line
        place = len(line)
        while place and line[place - 1].place > record.place:  # none: locks come in order, but peers may lie
            place -= 1
        line.insert(place, record)

    def in_line(self) -> list[LockRecord]:
        """Return the undelivered totals, the next one to deliver first."""
        return list(self._line)

    @property
    def first(self) -> LockRecord | None:
        """The total that is delivered next; None if all are delivered."""
        return self._line[0] if self._line else None

    def take_idle(self) -> list[LockRecord]:
        """Remove and return the totals that are to become active now, in the order of their places."""
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
        """Give a total its final stamp, and open its keys again."""
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
        """Record a total that was delivered elsewhere before this broker joined; it is never delivered here."""
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
