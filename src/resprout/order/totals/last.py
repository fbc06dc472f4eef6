"""The last total of each publisher that has a place in the order: what is not newer has been ordered already."""

from typing import Final

from resprout.core.guarantee import Guarantee
from resprout.core.marks import Mark, Marks
from resprout.order.totals.messages import TotalId

PUBLISHERS_KEPT: Final = 10_000
"""Publishers that are remembered for certain, the latest ones; up to twice as many are. A total that comes again after
so many others is still found old by the watermark of its stream, unless its publisher has begun a new life since."""

_STREAM: Final = Guarantee.TOTAL.stream

Place = tuple[int, int]
"""(incarnation, first number); they compare as they follow each other."""


class LastPlaces:
    """Two generations: what is met again moves to the young one, and when that is full the old one is forgotten."""

    __slots__ = ("_old", "_reached")

    def __init__(self) -> None:
        self._reached: dict[str, Place] = {}
        self._old: dict[str, Place] = {}

    def is_newer(self, id: TotalId) -> bool:
        return id[1:] > self._get(id[0])

    def note(self, mark: Mark) -> None:
        """`mark.seq` is the first number of the total's bundle."""
        self._reached[mark.publisher] = max((mark.incarnation, mark.seq), self._get(mark.publisher))
        if len(self._reached) > PUBLISHERS_KEPT:
            self._old, self._reached = self._reached, {}

    def marks(self) -> Marks:
        return tuple([Mark(name, _STREAM, *at) for name, at in {**self._old, **self._reached}.items()])

    def _get(self, publisher: str) -> Place:
        return self._reached.get(publisher) or self._old.get(publisher, (0, 0))
