"""Parts of bundles of a durable subscription: waiting, out with a consumer, or dropped; and the consumer.

A consumer names messages by origin and number, as often as it likes. So both collections find a part by its number
without looking at all others.

Messages are dropped when too many wait. `DropCount` knows how many were, and of how many consumers were told.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from resprout.core.bundle import Bundle, Origin, Pair
from resprout.core.message_fields import NUMBER_MAX
from resprout.core.seen import Ranges, as_ranges
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.broker.session import ENTRY_BYTES, ClientSession
from resprout.edge.durable_messages import Drops, Span

OUT_BYTES_MAX: Final = 16 << 20
"""What one consumer may have out, and one bundle more."""
Times = tuple[tuple[int, int], ...]
"""Times of messages of a bundle, in microseconds since 1970, each with the place of its message, in order."""
NO_TIMES: Final[Times] = ()

PIECES_LISTED: Final = 8
"""Portions of one bundle that are looked at one after the other; more of them are found by number."""


class Portion:
    """Messages of one bundle that are somewhere together: waiting, or out with one consumer."""

    __slots__ = (
        "deadline_us", "delays", "delays_passed", "due_us", "expiries", "expiries_passed", "first", "holder", "item",
        "keys", "offsets", "origin", "priority", "redelivered", "serial", "tries",
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
        self.delays = NO_TIMES
        """Of a portion of delayed messages: when those of the bundle are due."""
        self.delays_passed = 0
        """Number of those that have been looked at, because their time has come."""
        self.expiries = NO_TIMES
        """When messages of the bundle expire."""
        self.expiries_passed = 0

    def cut(self, offsets: Sequence[int]) -> "Portion":
        """The same, of fewer messages."""
        cut = Portion(self.item, self.serial, offsets, self.keys, self.redelivered)
        cut.tries = self.tries
        cut.delays, cut.delays_passed = self.delays, self.delays_passed
        cut.expiries, cut.expiries_passed = self.expiries, self.expiries_passed
        cut.priority = self.priority
        return cut

    @property
    def expires_us(self) -> int:
        """When a message of it may expire, in microseconds since 1970; 0: none will."""
        return self.expiries[self.expiries_passed][0] if self.expiries_passed < len(self.expiries) else 0

    def take_due(self, wall_us: int) -> list[int]:
        """Remove and return the places of delayed messages that are due by now."""
        ready, self.delays_passed = self._take_timed(self.delays, self.delays_passed, wall_us)
        return ready

    def take_expired(self, wall_us: int) -> list[int]:
        """Remove and return the places of messages that have expired."""
        over, self.expiries_passed = self._take_timed(self.expiries, self.expiries_passed, wall_us)
        return over

    def _take_timed(self, times: "Times", passed: int, wall_us: int) -> tuple[list[int], int]:
        end = bisect_left(times, (wall_us + 1, 0), passed)
        taken: list[int] = []
        if end > passed:
            offsets = list(self.offsets)
            for _, place in times[passed:end]:
                at = bisect_left(offsets, place)
                if at < len(offsets) and offsets[at] == place:
                    del offsets[at]
                    taken.append(place)
            self.offsets = offsets
        return sorted(taken), end

    def take(self, first: int, last: int) -> Sequence[int]:
        """Return the places of its messages with these numbers."""
        begin, end = self._where(first, last)
        return self.offsets[begin:end]

    def without(self, first: int, last: int) -> Sequence[int]:
        """Return the places of its other messages."""
        begin, end = self._where(first, last)
        return [*self.offsets[:begin], *self.offsets[end:]]

    def _where(self, first: int, last: int) -> tuple[int, int]:
        return bisect_left(self.offsets, first - self.first), bisect_right(self.offsets, last - self.first)

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


class _Pieces:
    """Portions of one bundle. A consumer may have each message in a portion of its own, and names them one by one."""

    __slots__ = ("_at", "_portions")

    def __init__(self, portion: Portion) -> None:
        self._portions: dict[Portion, None] = {portion: None}
        self._at: dict[int, Portion] | None = None
        """By the place of a message, once there are many. A portion that has fewer messages than before may still be
        found by the others."""

    def __bool__(self) -> bool:
        return bool(self._portions)

    def __iter__(self) -> Iterator[Portion]:
        return iter(self._portions)

    def add(self, portion: Portion) -> None:
        self._portions[portion] = None
        if self._at is not None:
            self._at.update(dict.fromkeys(portion.offsets, portion))
        elif len(self._portions) > PIECES_LISTED:
            self._at = {offset: each for each in self._portions for offset in each.offsets}

    def remove(self, portion: Portion) -> None:
        del self._portions[portion]

    def find(self, low: int, high: int) -> Iterable[Portion]:
        if self._at is None or high - low >= len(self._portions):
            return self._portions
        places = range(max(low, 0), high + 1)
        found = dict.fromkeys([portion for at in places if (portion := self._at.get(at)) is not None])
        return [portion for portion in found if portion in self._portions]


class PortionIndex:
    """Portions of one origin. Bundles of an origin do not overlap, so a number belongs to one bundle."""

    __slots__ = ("_by_first", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        """First numbers of the bundles, in order."""
        self._by_first: dict[int, _Pieces] = {}

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[Portion]:
        return (portion for pieces in self._by_first.values() for portion in pieces)

    def add(self, portion: Portion) -> None:
        first = portion.first
        pieces = self._by_first.get(first)
        if pieces is not None:
            pieces.add(portion)
            return
        self._by_first[first] = _Pieces(portion)
        if self._firsts and first < self._firsts[-1]:
            self._firsts.insert(bisect_left(self._firsts, first), first)
        else:
            self._firsts.append(first)

    def remove(self, portion: Portion) -> None:
        first = portion.first
        pieces = self._by_first[first]
        pieces.remove(portion)
        if not pieces:
            del self._by_first[first]
            del self._firsts[bisect_left(self._firsts, first)]

    def find(self, first: int, last: int) -> list[Portion]:
        """Return the portions that may hold one of these numbers."""
        begin = max(0, bisect_right(self._firsts, first) - 1)
        end = bisect_right(self._firsts, last)
        by_first = self._by_first
        return [
            portion
            for number in self._firsts[begin:end]
            for portion in by_first[number].find(first - number, last - number)
        ]


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
        self.portions_left = 1 << 62
        """Portions that it may be handed in this step."""
        self.alone: Portion | None = None
        """What it was handed last as the only thing (`Retries.is_last_try`)."""

    @property
    def free(self) -> int:
        """Messages that it may be handed."""
        if self.alone is not None and self.alone.holder == self.session.name:
            return 0
        has_room = self.session.room > 0 and self.bytes < OUT_BYTES_MAX and self.portions_left > 0
        return self.window - self.count if has_room else 0


def cost_of(item: HeldBundle) -> int:
    """Return the bytes that an item counts with."""
    assert item.bundle is not None, "a reader pins the bundle"
    return ENTRY_BYTES + item.bundle.cost


def load_of(consumer: Consumer) -> tuple[int, int]:
    """Return a key by which the consumer with the fewest messages comes first."""
    return (consumer.count, consumer.served)


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


def disjoint(spans: Sequence[Span]) -> Iterable[Span]:
    """Return the same messages, each of them once, in the same order if that is so already: a consumer may name
    everything in each of thousands of spans."""
    if len(spans) == 1:
        return spans
    ranges: dict[Origin, list[Span]] = {}
    for span in sorted(spans, key=_first):
        of_origin = ranges.setdefault(span.origin, [])
        if of_origin and span.first <= of_origin[-1].last:
            span = of_origin.pop() if span.last <= of_origin[-1].last else Span(
                *span.origin, of_origin.pop().first, span.last
            )  # fmt: skip
        of_origin.append(span)
    found = [span for of_origin in ranges.values() for span in of_origin]
    return found if len(found) < len(spans) else spans


def _first(span: Span) -> int:
    return span.first


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
