"""Totals on their way up to the root, and how far each publisher's totals have been ordered.

A broker keeps what it passed up until the lock comes down, so that nothing is lost with a broker above: whoever gets a
new parent submits again. What is not newer than its publisher's last ordered total has been ordered already; that makes
submitting again harmless. A publisher that returns in the same life may repeat totals with other boundaries: of a
bundle that was ordered in part, the rest is ordered.
"""

import contextlib
from collections.abc import Iterable
from typing import Final

from resprout.core.bundle import Bundle, split
from resprout.core.errors import WireError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark, Marks
from resprout.order.totals.backlog import Backlog
from resprout.order.totals.messages import TotalId, id_of

PUBLISHERS_KEPT: Final = 10_000
"""Publishers that are remembered for certain, the latest ones; up to twice as many are. A total that comes again after
so many others is still found old by the watermark of its stream, unless its publisher has begun a new life since."""

_STREAM: Final = Guarantee.TOTAL.stream

LifeAndNumber = tuple[int, int]
"""(incarnation, number); they compare as they follow each other."""


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


class Submissions:
    __slots__ = ("_backlog", "last", "waiting")

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self.last = LastPlaces()
        self.waiting: dict[TotalId, Bundle] = {}
        """Submitted and not yet locked."""

    def keep(self, id: TotalId, bundle: Bundle) -> None:
        known = self.waiting.get(id)
        if known is None or known.last <= bundle.last:
            self.waiting[id] = bundle
        self._backlog.add(id, bundle)

    def locked(self, id: TotalId, bundle: Bundle) -> None:
        """It has its place, and still waits for its delivery."""
        waiting = self.waiting.get(id)
        if waiting is not None and waiting.last == bundle.last:
            del self.waiting[id]
        self.note_ordered((Mark(bundle.publisher, bundle.stream, bundle.incarnation, bundle.last),))
        self._backlog.add(id, bundle)

    def drop(self, id: TotalId) -> None:
        if self.waiting.pop(id, None) is not None:
            self._backlog.remove(id)

    def note_ordered(self, marks: Iterable[Mark]) -> None:
        """Publishers have come this far. What waits here and is not newer will never be ordered: it has been, or a
        newer life of its publisher has overtaken it. Of a bundle that was ordered in part, the rest waits."""
        for mark in marks:
            self.last.note(mark)
            for id in [id_of(bundle) for bundle in self._backlog.of(mark.publisher)]:
                if id in self.waiting and not self.last.is_newer(id):
                    rest = self.last.rest(self.waiting[id])
                    if rest is self.waiting[id]:
                        self.drop(id)
                    else:
                        self._replace(id, rest)

    def _replace(self, id: TotalId, rest: Bundle) -> None:
        """At the same place: what waits is submitted again in this order."""
        waiting, self.waiting = self.waiting, {}
        self._backlog.remove(id)
        for each, bundle in waiting.items():
            if each == id:
                self.keep(id_of(rest), rest)
            else:
                self.keep(each, bundle)
