"""Parts of bundles of a durable subscription: waiting, out with a consumer, or dropped; and the consumer.

A consumer names messages by origin and number, as often as it likes. So both collections find a part by its number
without looking at all others.

Messages are dropped when too many wait. `DropCount` knows how many were, and of how many consumers were told.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from resprout.core.bundle import Bundle, Origin, Pair
from resprout.core.message_fields import NUMBER_MAX
from resprout.core.seen import Ranges, as_ranges
from resprout.core.timing import PRIORITY_MAX
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import Drops, Span

OUT_BYTES_MAX: Final = 16 << 20
"""What one consumer may have out, and one bundle more."""


class Portion:
    """Messages of one bundle that are somewhere together: waiting, or out with one consumer."""

    __slots__ = (
        "deadline_us", "due_us", "expiries", "first", "holder", "item", "keys", "offsets", "origin", "priority",
        "redelivered", "serial", "tries",
    )  # fmt: skip

    def __init__(
        self, item: HeldBundle, serial: int, offsets: Sequence[int], keys: tuple[Pair, ...], again: bool
    ) -> None:
        assert item.bundle is not None, "a reader pins the bundle"
        self.item = item
        self.origin = item.bundle.origin
        self.first = item.bundle.first
        """The first number of the bundle."""
        self.serial = serial
        self.offsets = offsets
        self.keys = keys
        self.redelivered = again
        self.holder = ""
        """The consumer that has it; empty while it waits."""
        self.tries = 0
        """How often these messages were handed out and came back without an acknowledgement, as far as is known."""
        self.deadline_us = 0
        """When its consumer has had it for too long; 0: never."""
        self.due_us = 0
        """Until when it waits aside, to be handed out later; 0: it does not."""
        self.priority = 0
        """Those with a higher one are handed out first."""
        self.expiries: dict[int, int] = {}
        """By place in the bundle, when messages expire, in microseconds since 1970."""

    def cut(self, offsets: Sequence[int]) -> "Portion":
        """The same, of fewer messages."""
        cut = Portion(self.item, self.serial, offsets, self.keys, self.redelivered)
        cut.tries = self.tries
        cut.expiries = self.expiries
        cut.priority = self.priority
        return cut

    def take(self, first: int, last: int) -> Sequence[int]:
        """Return the places of its messages with these numbers."""
        low, high = first - self.first, last - self.first
        return [offset for offset in self.offsets if low <= offset <= high]

    def spans(self) -> list[Span]:
        return [Span(*self.origin, self.first + low, self.first + high) for low, high in as_ranges(self.offsets)]

    @property
    def bundle(self) -> Bundle:
        """Asked of the item each time: it may be put on disk while it waits."""
        bundle = self.item.bundle
        assert bundle is not None, "a reader pins the bundle"
        return bundle

    @property
    def bytes(self) -> int:
        """Its part of the bundle, roughly."""
        bundle = self.bundle
        return bundle.cost * len(self.offsets) // bundle.count

    def split(self, count: int) -> tuple["Portion", "Portion"]:
        return self.cut(self.offsets[:count]), self.cut(self.offsets[count:])


class PortionIndex:
    """Portions of one origin. Bundles of an origin do not overlap, so a number belongs to one bundle."""

    __slots__ = ("_by_first", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        """First numbers of the bundles, in order."""
        self._by_first: dict[int, list[Portion]] = {}

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[Portion]:
        return (portion for portions in self._by_first.values() for portion in portions)

    def add(self, portion: Portion) -> None:
        first = portion.first
        portions = self._by_first.get(first)
        if portions is not None:
            portions.append(portion)
            return
        self._by_first[first] = [portion]
        if self._firsts and first < self._firsts[-1]:
            self._firsts.insert(bisect_left(self._firsts, first), first)
        else:
            self._firsts.append(first)

    def remove(self, portion: Portion) -> None:
        first = portion.first
        portions = self._by_first[first]
        portions.remove(portion)
        if not portions:
            del self._by_first[first]
            del self._firsts[bisect_left(self._firsts, first)]

    def find(self, first: int, last: int) -> list[Portion]:
        """Return the portions of all bundles that may hold one of these numbers."""
        begin = max(0, bisect_right(self._firsts, first) - 1)
        end = bisect_right(self._firsts, last)
        return [portion for number in self._firsts[begin:end] for portion in self._by_first[number]]


class IndexByOrigin:
    """A `PortionIndex` for each origin."""

    __slots__ = ("_origins",)

    def __init__(self) -> None:
        self._origins: dict[Origin, PortionIndex] = {}

    def __bool__(self) -> bool:
        return bool(self._origins)

    def __iter__(self) -> Iterator[Portion]:
        return (portion for index in self._origins.values() for portion in index)

    def add(self, portion: Portion) -> None:
        self._origins.setdefault(portion.origin, PortionIndex()).add(portion)

    def remove(self, portion: Portion) -> None:
        origin = portion.origin
        index = self._origins[origin]
        index.remove(portion)
        if not index:
            del self._origins[origin]

    def find(self, origin: Origin, first: int, last: int) -> list[Portion]:
        index = self._origins.get(origin)
        return index.find(first, last) if index is not None else []

    def clear(self) -> None:
        self._origins.clear()


class WaitingPortions:
    """Portions that nobody has, in the order in which they will be handed out. Those that were handed out before are
    found by number. A portion that is removed inside stays in the queue until it is at the front, or until half of the
    queue consists of such."""

    __slots__ = ("_again", "_queue", "_removed", "messages")

    def __init__(self) -> None:
        self._queue: deque[Portion] = deque()
        self._again = IndexByOrigin()
        self._removed: set[Portion] = set()
        self.messages = 0
        """In all of them."""

    def __len__(self) -> int:
        return len(self._queue) - len(self._removed)

    def __iter__(self) -> Iterator[Portion]:
        return (portion for portion in self._queue if portion not in self._removed)

    def append(self, portion: Portion) -> None:
        self._queue.append(portion)
        self._count(portion)

    def appendleft(self, portion: Portion) -> None:
        self._queue.appendleft(portion)
        self._count(portion)

    def popleft(self) -> Portion:
        while (portion := self._queue.popleft()) in self._removed:
            self._removed.remove(portion)
        self.messages -= len(portion.offsets)
        if portion.redelivered:
            self._again.remove(portion)
        return portion

    def pop_to_drop(self) -> Portion:
        """Take the first one that may be dropped."""
        return self.popleft()

    def lessen(self, portion: Portion, messages: int) -> None:
        """So many messages of one that was handed out before do not wait any more."""
        self.messages -= messages

    def take_all(self) -> list[Portion]:
        """Return all of them. Nothing waits any more."""
        portions = list(self)
        self._queue.clear()
        self._again.clear()
        self._removed.clear()
        self.messages = 0
        return portions

    def put_back(self, portions: Iterable[Portion]) -> None:
        """Let portions that were handed out wait in their old places."""
        back = sorted(portions, key=_place)
        if not back:
            return
        last = _place(back[-1])
        while self and _place(self._first()) < last:
            back.append(self.popleft())
        for portion in sorted(back, key=_place, reverse=True):
            self.appendleft(portion)

    def replace(self, portion: Portion, rest: Portion | None) -> None:
        """Let fewer messages of a portion wait that was handed out before, at its place; None: nothing of it."""
        self.messages -= len(portion.offsets) - (len(rest.offsets) if rest is not None else 0)
        if rest is None:
            self.remove(portion)
        else:
            portion.offsets = rest.offsets

    def find_again(self, origin: Origin, first: int, last: int) -> list[Portion]:
        """Return those that were handed out before and may hold one of these numbers."""
        return self._again.find(origin, first, last)

    def remove(self, portion: Portion) -> None:
        """One of those that were handed out before; its messages are no longer counted."""
        self._again.remove(portion)
        self._removed.add(portion)
        if 2 * len(self._removed) > len(self._queue):
            self._queue = deque(self)
            self._removed.clear()

    def _first(self) -> Portion:
        while (portion := self._queue[0]) in self._removed:
            self._removed.remove(self._queue.popleft())
        return portion

    def _count(self, portion: Portion) -> None:
        self.messages += len(portion.offsets)
        if portion.redelivered:
            self._again.add(portion)


class PriorityPortions:
    """Portions that nobody has, those with a higher priority first."""

    __slots__ = ("_levels",)

    def __init__(self, usual: WaitingPortions) -> None:
        """`usual`: those without a priority."""
        self._levels = [usual, *[WaitingPortions() for _ in range(PRIORITY_MAX)]]

    @property
    def messages(self) -> int:
        return sum([level.messages for level in self._levels])

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def __iter__(self) -> Iterator[Portion]:
        return (portion for level in reversed(self._levels) for portion in level)

    def append(self, portion: Portion) -> None:
        self._levels[portion.priority].append(portion)

    def appendleft(self, portion: Portion) -> None:
        self._levels[portion.priority].appendleft(portion)

    def popleft(self) -> Portion:
        return next(level for level in reversed(self._levels) if level).popleft()

    def pop_to_drop(self) -> Portion:
        """Take the first one of the lowest priority."""
        return next(level for level in self._levels if level).popleft()

    def lessen(self, portion: Portion, messages: int) -> None:
        self._levels[portion.priority].lessen(portion, messages)

    def take_all(self) -> list[Portion]:
        return [portion for level in reversed(self._levels) for portion in level.take_all()]

    def put_back(self, portions: Iterable[Portion]) -> None:
        """Let portions that were handed out wait in their old places."""
        back = list(portions)
        for priority in {portion.priority: None for portion in back}:
            self._levels[priority].put_back([portion for portion in back if portion.priority == priority])

    def replace(self, portion: Portion, rest: Portion | None) -> None:
        self._levels[portion.priority].replace(portion, rest)

    def find_again(self, origin: Origin, first: int, last: int) -> list[Portion]:
        return [portion for level in self._levels for portion in level.find_again(origin, first, last)]

    def remove(self, portion: Portion) -> None:
        self._levels[portion.priority].remove(portion)


def _place(portion: Portion) -> tuple[int, int]:
    return portion.serial, portion.offsets[0]


class Consumer:
    """One of those who are handed messages."""

    def __init__(self, session: ClientSession, window: int, has: Iterable[Span] = ()) -> None:
        self.session = session
        self.window = window
        self.has = _ranges_of(has)
        """What it was handed elsewhere, and has not acknowledged."""
        self.out = IndexByOrigin()
        self.count = 0
        """Messages in that."""
        self.bytes = 0
        self.served = 0
        """When it was handed something last, by count."""
        self.notice = 0
        """The count of dropped messages that it was told and has not acknowledged; 0: none."""
        self.alone: Portion | None = None
        """What it was handed last as the only thing (`Retries.is_last_try`)."""

    @property
    def free(self) -> int:
        """Messages that it may be handed."""
        if self.alone is not None and self.alone.holder == self.session.name:
            return 0
        return self.window - self.count if self.session.room > 0 and self.bytes < OUT_BYTES_MAX else 0


def offsets_of(item: HeldBundle, bundle: Bundle, session: ClientSession) -> Sequence[int]:
    """Return the places of its messages that are for this subscription."""
    picks = item.picks.get(session.name) if item.picks is not None else None
    return range(bundle.count) if picks is None else picks


def _ranges_of(spans: Iterable[Span]) -> dict[Origin, Ranges]:
    ranges: dict[Origin, Ranges] = {}
    for span in spans:
        ranges.setdefault(span.origin, Ranges()).add(span.first, span.last)
    return ranges


def spans_of(item: HeldBundle, session: ClientSession) -> list[Span]:
    """The messages of an item that a session would have been given."""
    bundle = item.bundle
    assert bundle is not None, "a reader pins the bundle"
    offsets = item.picks.get(session.name) if item.picks is not None else None
    seqs = [(bundle.first, bundle.last)] if offsets is None else as_ranges([bundle.first + at for at in offsets])
    return [Span(*bundle.origin, first, last) for first, last in seqs]


def joined(spans: list[Span]) -> list[Span]:
    """In the same order, where one continues another of its origin as one."""
    joined: dict[Origin, list[Span]] = {}
    for span in spans:
        of_origin = joined.setdefault(span.origin, [])
        if of_origin and of_origin[-1].last + 1 == span.first:
            of_origin[-1] = Span(*span.origin, of_origin[-1].first, span.last)
        else:
            of_origin.append(span)
    return [span for of_origin in joined.values() for span in of_origin]


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
