"""What every broker knows of a durable subscription, how far it has come, and the messages that tell it.

Tags 75 to 78 of the wire belong to this file. Every broker knows the state of every durable subscription, so that
another broker can hold it when its broker is gone. It also keeps the progress of each: per origin a watermark that lies
between two bundles, and what is done beyond it, exact to the message.

Progress is told with the signs of life, without an answer. A broker that is cut off does not notice at once; but while
all neighbours are heard, what was told a lease ago has arrived. Until then (`UnknownDone`) a consumer that lives brings
it along to the next home; also what other consumers have done, which it is told when it comes, and when a neighbour is
not heard.
"""

from typing import ClassVar, Final

import msgspec

from resprout.core.bundle import Origin
from resprout.core.contract import Departure, NeighbourMessage
from resprout.core.errors import PeerError
from resprout.core.limits import BUNDLE_MESSAGES
from resprout.core.message_fields import (
    MARK_BYTES,
    MARKS_MAX,
    NOTHING,
    NUMBER_MAX,
    BoundedNumber,
    Marks,
    Reached,
    raise_to,
    to_marks,
)
from resprout.core.seen import Ranges
from resprout.edge.broker.known_ids import KnownIds, ids_bytes
from resprout.edge.broker.queue_progress import SPANS_TOLD_MAX
from resprout.edge.broker.retries import TRIES_TOLD_MAX, TryCounts
from resprout.edge.durable_messages import NO_DROPS, SPAN_BYTES, Drops, IdBatches, Span, Spans, Terms, Tries
from resprout.overlay.messages import Life

STATE_MARKS_MAX: Final = 8_000
"""Of each kind in one state, the latest: it has to fit into a frame."""
CONSUMERS_TOLD: Final = 256
"""Whom its next broker waits for."""

GAPS_MAX: Final = 2_000
"""Per origin, beyond its watermark."""
ORIGINS_MAX: Final = 8_000
"""Of which something is done beyond the watermark. Whatever exceeds a bound is handed out again if the home dies."""


MARKS_KEPT: Final = 100_000
"""Origins of which the watermark is remembered, the latest."""


class DurableState(msgspec.Struct, frozen=True, array_like=True):
    subscription: str
    terms: Terms
    term: BoundedNumber
    """Counts the brokers that have held it."""
    home: Life
    """Who holds it."""
    address: str
    """Of that broker; empty where names are enough to connect."""
    edition: BoundedNumber = 0
    """Counts what its broker has said of it."""
    base: Marks = ()
    """What had passed before it was confirmed."""
    done: Marks = ()
    """Up to where everything is done; never inside a bundle."""
    turn: BoundedNumber = 0
    """Of the consumer that has it alone."""
    consumers: tuple[str, ...] = ()
    replay: str = ""
    """What of the past its consumer has to read first."""
    over: bool = False
    """It was ended. That is remembered, so that nobody who had not heard brings it back."""
    spans: Spans = ()
    """Done beyond `done`."""
    owner: str = ""
    """The identity that it belongs to (`edge.rights`); empty: none."""
    drops: Drops = NO_DROPS
    is_partial: bool = False
    """Its home leaves out `base`, `done` and `spans`: they are what it has said of this term before. A consumer that
    joins or leaves changes nothing about them, and with thousands of publishers they take 1.5 MB."""
    tries: tuple[Tries, ...] = ()
    """How often messages beyond `done` were handed out without an acknowledgement, where they were."""

    @property
    def age(self) -> tuple[int, str, int, int]:
        """Of two, the greater one holds: whoever held it later; and of two that were begun at the same time, one."""
        return (self.term, self.home.name, self.home.incarnation, self.edition)


def check_progress(marks: Marks, spans: Spans, drops: Drops, tries: tuple[Tries, ...] = ()) -> None:
    """PeerError for what no honest broker says."""
    if len(marks) > MARKS_MAX or len(spans) > SPANS_TOLD_MAX:
        raise PeerError(f"{len(marks)} marks and {len(spans)} spans are done; at most {MARKS_MAX} and {SPANS_TOLD_MAX}")
    if not all(0 < mark.seq <= NUMBER_MAX for mark in marks):
        raise PeerError("a mark beyond every number")
    if not all(0 < span.first <= span.last <= NUMBER_MAX for span in spans):
        raise PeerError("a span that is none")
    if len(tries) > TRIES_TOLD_MAX or not all(0 <= each.last - each.first < BUNDLE_MESSAGES for each in tries):
        raise PeerError("counts of tries that are none, or too many")
    if drops.told > drops.messages:
        raise PeerError(f"consumers were told of {drops.told} dropped messages; {drops.messages} were dropped")


class DurableProgress:
    """Of one durable subscription."""

    __slots__ = ("_beyond", "_reached", "drops", "ids", "tries")

    def __init__(self) -> None:
        self._reached: dict[Origin, Reached] = {}
        self._beyond: dict[Origin, Ranges] = {}
        """Everything up to the watermark, and some beyond it."""
        self.drops = NO_DROPS
        self.tries = TryCounts()
        self.ids = KnownIds()

    def add(self, marks: Marks, spans: Spans = ()) -> tuple[Marks, Spans]:
        """Take the further of both, and return what was new."""
        reached, beyond = self._reached, self._beyond
        new = tuple([mark for mark in marks if mark.seq > reached.get(mark.origin, NOTHING)])
        for mark in new:  # the latest are at the end
            reached.pop(mark.origin, None)
        raise_to(reached, new)
        while len(reached) > MARKS_KEPT:
            del reached[next(iter(reached))]
        for mark in new if beyond else ():
            ranges = beyond.get(mark.origin)
            if ranges is not None:
                ranges.add(1, mark.seq)
                if ranges.highest <= mark.seq:
                    del beyond[mark.origin]
        if self.tries:
            for mark in new:
                self.tries.forget(mark.origin, 1, mark.seq)
            for span in spans:
                self.tries.forget(span.origin, span.first, span.last)
        return new, tuple([span for span in spans if self._add_span(span)])

    def _add_span(self, span: Span) -> bool:
        upto = self._reached.get(span.origin, NOTHING)
        if span.last <= upto:
            return False
        ranges = self._beyond.get(span.origin)
        if ranges is None:
            if len(self._beyond) >= ORIGINS_MAX:
                return False
            ranges = self._beyond[span.origin] = Ranges()
            ranges.add(1, upto)
        if ranges.gaps >= GAPS_MAX and not ranges.touches(span.first - 1, span.last + 1):
            return False
        return bool(ranges.add(span.first, span.last))

    def marks(self) -> Marks:
        return to_marks(self._reached)

    def spans(self) -> Spans:
        """As many as fit into a message: the latest origins."""
        spans = [
            Span(*origin, first, last)
            for origin, ranges in self._beyond.items()
            for first, last in ranges.above(self._reached.get(origin, NOTHING))
        ]
        return tuple(spans[-SPANS_TOLD_MAX:])


class UnknownDone:
    """Of a durable subscription that lives here: what may not be known everywhere yet. Two generations: what is noted
    is remembered until the next turn but one."""

    __slots__ = ("_before", "_latest", "_shared", "_turned_us")

    def __init__(self, now_us: int) -> None:
        self._latest = DurableProgress()
        self._before = DurableProgress()
        self._shared: tuple[Marks, Spans] = ((), ())
        self._turned_us = now_us

    def note(self, marks: Marks, spans: Spans) -> None:
        """Everybody is being told."""
        self._latest.add(marks, spans)

    def turn(self, now_us: int, period_us: int) -> Marks:
        """While everybody is heard: what is known everywhere by now."""
        if now_us - self._turned_us < period_us:
            return ()
        self._turned_us = now_us
        known, self._before, self._latest = self._before, self._latest, DurableProgress()
        return known.marks()

    def all(self) -> tuple[Marks, Spans]:
        both = DurableProgress()
        for each in (self._before, self._latest):
            both.add(each.marks(), each.spans())
        return both.marks(), both.spans()

    def unshared(self) -> tuple[Marks, Spans]:
        """All, if it is more than when this was asked last."""
        done = self.all()
        if done == self._shared:
            return (), ()
        self._shared = done
        return done


class DurableKnown(NeighbourMessage, frozen=True, tag=75):
    """Through the tree, to everybody: a durable subscription, as it is now. Answered by `DurableHeard`."""

    leaves: ClassVar[Departure] = Departure.TURN

    state: DurableState

    @property
    def bulk(self) -> int:
        state = self.state
        names = 64 * (4 + len(state.consumers))
        marks = MARK_BYTES * (len(state.base) + len(state.done)) + SPAN_BYTES * len(state.spans)
        return marks + names + 2 * SPAN_BYTES * len(state.tries) + 4 * len(state.terms.filter) + 4096


class DurableHeard(NeighbourMessage, frozen=True, tag=76):
    """The sender knows that, and so does everybody behind it."""

    leaves: ClassVar[Departure] = Departure.TURN

    subscription: str
    term: BoundedNumber
    edition: BoundedNumber


class DurableDone(NeighbourMessage, frozen=True, tag=77):
    """Through the tree: up to here everything is done, and of the same origins all of these spans. What was dropped is
    done, too, and counted."""

    leaves: ClassVar[Departure] = Departure.TURN

    subscription: str
    term: BoundedNumber
    marks: Marks
    spans: Spans = ()
    drops: Drops = NO_DROPS
    tries: tuple[Tries, ...] = ()

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.marks) + SPAN_BYTES * (len(self.spans) + 2 * len(self.tries))

    @property
    def background(self) -> bool:
        return True


class DurableIds(NeighbourMessage, frozen=True, tag=78):
    """Through the tree: messages with these ids have come, of a durable subscription. Said before their progress."""

    leaves: ClassVar[Departure] = Departure.TURN

    subscription: str
    ids: IdBatches

    @property
    def bulk(self) -> int:
        return ids_bytes(self.ids)

    @property
    def background(self) -> bool:
        return True


DURABLE_BROKER_MESSAGES = (DurableKnown, DurableHeard, DurableDone, DurableIds)
