"""Duplicate detection: one watermark per origin.

Links are FIFO and the tree has no cycles, so the bundles of one origin pass any broker in order and a single number per
origin is an exact test, also where interest lets only some of them through. A restarted publisher counts from one again
under a higher incarnation, which is another origin.
"""

from collections.abc import Iterator

from resprout.core.bundle import Bundle, Origin
from resprout.core.errors import PeerError
from resprout.core.marks import NOTHING, Mark, Reached

ORIGINS_KEPT = 100_000
"""Origins that are remembered for certain, the latest ones; up to twice as many are. Clients come and go under ever new
names, and what has been quiet for so long has long been stable everywhere."""


class Seen:
    """How far each origin has come at this broker. Two generations: what is met again moves to the young one, and when
    that is full the old one is forgotten."""

    __slots__ = ("_marks", "_old")

    def __init__(self) -> None:
        self._marks: dict[Origin, Reached] = {}
        self._old: dict[Origin, Reached] = {}

    def mark(self, origin: Origin) -> Reached:
        return self._marks.get(origin) or self._old.get(origin, NOTHING)

    def __len__(self) -> int:
        return len(self._marks) + len(self._old)

    def is_new(self, bundle: Bundle) -> bool:
        """True, and remembered, when nothing of the bundle was seen before. A bundle is atomic: one that is partly new
        can only come from a peer that cut it in two, and is refused."""
        last = self.mark(bundle.origin)
        if bundle.first <= last:
            if bundle.last > last:
                raise PeerError(f"{bundle!r} overlaps what was seen up to {last}")
            return False
        self._remember(bundle.origin, bundle.last)
        return True

    def has(self, bundle: Bundle) -> bool:
        return bundle.last <= self.mark(bundle.origin)

    def raise_to(self, origin: Origin, reached: Reached) -> None:
        """Others have come so far."""
        if reached > self.mark(origin):
            self._remember(origin, reached)

    def marks(self) -> Iterator[Mark]:
        """Everything that is remembered."""
        for origin, reached in self._old.items():
            if origin not in self._marks:
                yield Mark(*origin, reached)
        for origin, reached in self._marks.items():
            yield Mark(*origin, reached)

    def _remember(self, origin: Origin, mark: Reached) -> None:
        self._marks[origin] = mark
        if len(self._marks) > ORIGINS_KEPT:
            self._old, self._marks = self._marks, {}
        elif self._old:
            self._old.pop(origin, None)
