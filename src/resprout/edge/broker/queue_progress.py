"""How far a durable subscription has come at its home: which messages are done, as other brokers are told."""

from typing import Final

from resprout.core.bundle import Bundle, Origin
from resprout.core.message_fields import Mark, Marks
from resprout.core.seen import Range, Ranges, as_ranges
from resprout.edge.broker.portion import offsets_of
from resprout.edge.broker.ports import HeldBundle
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import Span, Spans

ORIGINS_KEPT: Final = 20_000
"""Of which it is remembered how far they have come, when nothing of them is left here."""
ISLANDS_MAX: Final = 1 << 16
"""Gaps in what consumers acknowledged and is not here, of all origins."""
SPANS_TOLD_MAX: Final = 2_000
"""What is done beyond the watermarks, in one message: it has to fit into a frame. Of more, some is not told; if the
broker dies, that part is handed out again."""


class QueueProgress:
    __slots__ = ("_done", "_open", "_session", "_top", "dirty")

    def __init__(self, session: ClientSession, done: Marks, spans: Spans) -> None:
        """`done`: up to where everything was done elsewhere; `spans`: and what else was."""
        self._session = session
        self.dirty: dict[Origin, None] = {}
        """Of which more is done than was told (`take`)."""
        self._open: dict[Origin, dict[int, HeldBundle]] = {}
        """By origin: the bundles that are not done, by their first numbers, in order."""
        self._top: dict[Origin, int] = {mark.origin: mark.seq for mark in done}
        """By origin: the last number that is done."""
        self._done: dict[Origin, Ranges] = {mark.origin: _upto(mark.seq) for mark in done}
        for span in spans:
            self._done.setdefault(span.origin, Ranges()).add(span.first, span.last)

    def of(self, origin: Origin) -> Ranges | None:
        """What is done of an origin."""
        return self._done.get(origin)

    def open(self, item: HeldBundle, bundle: Bundle) -> None:
        """Something of this bundle is not done."""
        self._open.setdefault(bundle.origin, {})[bundle.first] = item

    def add(self, bundle: Bundle, first: int, last: int, offsets: list[int] | None = None) -> None:
        """These messages of a bundle are done: all from the first to the last, or those at these offsets."""
        done = self._done.get(bundle.origin)
        if done is None:
            done = self._done[bundle.origin] = Ranges()
        if offsets is None:
            done.add(first, last)
        else:
            for low, high in as_ranges([bundle.first + offset for offset in offsets]):
                done.add(low, high)
        self.dirty[bundle.origin] = None

    def finish(self, bundle: Bundle) -> None:
        """All of it is done."""
        origin = bundle.origin
        still = self._open.get(origin)
        if still is not None:
            still.pop(bundle.first, None)
            if not still:
                del self._open[origin]
        self._top[origin] = max(self._top.get(origin, 0), bundle.last)
        self.dirty[origin] = None

    def take(self) -> tuple[Marks, Spans]:
        """Return how far origins have come of which more is done by now.

        A mark is a watermark: everything up to it is done. It never lies inside a bundle, because a reader that returns
        to the log claims whole bundles beyond it (`core.message_fields.is_beyond`). The spans are all that is done
        beyond it.
        """
        marks: list[Mark] = []
        spans: list[Span] = []
        for origin in self.dirty:
            still = self._open.get(origin)
            seq = next(iter(still)) - 1 if still else self._top.get(origin, 0)
            if still and len(spans) < SPANS_TOLD_MAX:
                spans += [Span(*origin, first, last) for first, last in self._beyond(origin, still)]
            if seq > 0:
                marks.append(Mark(*origin, seq))
                before = self._done.get(origin)
                done = self._done[origin] = _upto(max(seq, before.upto if before is not None else 0))
                for first, last in before.islands() if before is not None and still else ():
                    done.add(first, last)
        self.dirty.clear()
        if len(self._top) > ORIGINS_KEPT:
            for origin in [origin for origin in self._top if origin not in self._open][: ORIGINS_KEPT // 4]:
                del self._top[origin]
                self._done.pop(origin, None)
        return tuple(marks), tuple(spans[:SPANS_TOLD_MAX])

    def _beyond(self, origin: Origin, still: dict[int, HeldBundle]) -> list[Range]:
        """What is done behind the first bundle that is not done, without what nobody was handed yet. Numbers that are
        not for this subscription count as done, as they do below a mark: so there are few ranges."""
        done = self._done.get(origin)
        if done is None:
            return []
        ranges: list[Range] = []
        at = next(iter(still))
        for first, item in still.items():
            if first > done.highest or len(ranges) >= SPANS_TOLD_MAX:
                break
            for low, high in self._lacking(item, done):
                if low > at:
                    ranges.append((at, low - 1))
                at = high + 1
        return [*ranges, (at, done.highest)] if at <= done.highest else ranges

    def _lacking(self, item: HeldBundle, done: Ranges) -> list[Range]:
        """Its messages that are not done."""
        bundle = item.bundle
        assert bundle is not None, "a reader pins the bundle"
        if item.picks is None:
            return done.lacks(bundle.first, bundle.last)
        numbers = [bundle.first + offset for offset in offsets_of(item, bundle, self._session)]
        return as_ranges(number for number in numbers if number not in done)


class AckedElsewhere:
    """What consumers acknowledged and is not here: it is done, if an earlier broker may have handed it out."""

    __slots__ = ("_by_origin", "_islands")

    def __init__(self) -> None:
        self._by_origin: dict[Origin, Ranges] = {}
        self._islands = 0
        """Gaps in all ranges."""

    def of(self, origin: Origin) -> Ranges | None:
        return self._by_origin.get(origin)

    def add(self, origin: Origin, span: Span) -> None:
        """Remember an acknowledgement, up to a bound: what is beyond it may be handed out again."""
        acked = self._by_origin.get(origin)
        if acked is None:
            if len(self._by_origin) >= ORIGINS_KEPT:
                return
            acked = self._by_origin[origin] = Ranges()
        if self._islands < ISLANDS_MAX or not acked.has_islands:
            before = acked.gaps
            acked.add(span.first, span.last)
            self._islands += acked.gaps - before


def _upto(seq: int) -> Ranges:
    ranges = Ranges()
    ranges.add(1, seq)
    return ranges
