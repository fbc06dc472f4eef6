"""Duplicate detection: one watermark per origin.

Links are FIFO and the tree has no cycles, so the bundles of one origin pass any broker in order and a single number per
origin is an exact test, also where interest lets only some of them through. A restarted publisher counts from one again
under a higher incarnation; whatever an older incarnation still sends is then old.
"""

from collections.abc import Iterator

from resprout.core.bundle import Bundle, Origin
from resprout.core.errors import PeerError
from resprout.core.marks import NOTHING, Mark, Reached

ORIGINS_KEPT = 100_000
"""Origins that are remembered for certain, the latest ones; up to twice as many are. Clients come and go under ever new
names, and what has been quiet for so long has long been stable everywhere."""


LIVES_KEPT = 10_000
"""Origins that have begun anew, of which the life before is remembered: something of it may still be under way."""


class Seen:
    """How far each origin has come at this broker. Two generations: what is met again moves to the young one, and when
    that is full the old one is forgotten."""

    __slots__ = ("_before", "_marks", "_old")

    def __init__(self) -> None:
        self._marks: dict[Origin, Reached] = {}
        self._old: dict[Origin, Reached] = {}
        self._before: dict[Origin, Reached] = {}
        """How far the life before the present one had come, of origins that have begun anew."""

    def mark(self, origin: Origin) -> Reached:
        return self._marks.get(origin) or self._old.get(origin, NOTHING)

    def __len__(self) -> int:
        return len(self._marks) + len(self._old)

    def is_new(self, bundle: Bundle) -> bool:
        """True, and remembered, when nothing of the bundle was seen before. A bundle is atomic: one that is partly new
        can only come from a peer that cut it in two, and is refused."""
        incarnation, last = before = self.mark(bundle.origin)
        mine = bundle.incarnation
        if mine == incarnation and bundle.first <= last:
            if bundle.last > last:
                raise PeerError(f"{bundle!r} overlaps what was seen up to {last}")
            return False
        if mine < incarnation:
            return False
        self._remember(bundle.origin, (mine, bundle.last), before)
        return True

    def has(self, bundle: Bundle) -> bool:
        """Whether this very bundle came by, also when its publisher has begun a new life since."""
        reached = self.mark(bundle.origin)
        if reached[0] > bundle.incarnation:
            reached = self._before.get(bundle.origin, NOTHING)
        return reached[0] == bundle.incarnation and bundle.last <= reached[1]

    def raise_to(self, origin: Origin, reached: Reached) -> None:
        """Others have come so far."""
        if reached > (before := self.mark(origin)):
            self._remember(origin, reached, before)

    def marks(self) -> Iterator[Mark]:
        """Everything that is remembered."""
        for origin, reached in self._old.items():
            if origin not in self._marks:
                yield Mark(*origin, *reached)
        for origin, reached in self._marks.items():
            yield Mark(*origin, *reached)

    def _remember(self, origin: Origin, mark: Reached, before: Reached) -> None:
        if before[0] < mark[0] and before != NOTHING:
            self._before[origin] = before
            if len(self._before) > LIVES_KEPT:
                del self._before[next(iter(self._before))]
        self._marks[origin] = mark
        if len(self._marks) > ORIGINS_KEPT:
            self._old, self._marks = self._marks, {}
        elif self._old:
            self._old.pop(origin, None)
