"""A hold-back queue: what came before something that it needs, until that is there.

The stack brings the test: `missing(item)` names one thing that the item still waits for, as *(source, count)*, or None
when it may be delivered. A source is whatever the stack counts: a member of a group, a pair of brokers, a publisher.
An item waits for one thing at a time, so it is looked at again only when that very count is reached, and not whenever
anything happens: each item is tested once for each thing that it had to wait for, and once more.

Counts only rise, so what is no longer missing is never missing again, and an item that may be delivered stays so while
others are delivered before it. Items that may be delivered come in the order in which they were put.

Tenants: CBCAST (a count per group and member, with `order.vector_clock`), LoCaMu (a count per pair of brokers),
Causal Barriers (a count per sender). `sites` expects the next number of each publisher in a table of its own, which
is part of a state that travels as bytes.

Not done here: finding repeats. Two copies of one item wait and come out alike; the stack asks `core.seen` first, or
again when they come out.
"""

from collections.abc import Callable, Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

Source = TypeVar("Source", bound=Hashable)
Item = TypeVar("Item")

ITEMS_HELD_MAX: Final = 100_000
"""Unless the stack says otherwise. Whoever sends more in advance has lost the way: see `put`."""


class HoldBack(Generic[Source, Item]):
    def __init__(self, missing: Callable[[Item], tuple[Source, int] | None], items_max: int = ITEMS_HELD_MAX) -> None:
        self._missing = missing
        self._items_max = items_max
        self._numbers = count()
        self._waiting: dict[Source, list[tuple[int, int, Item]]] = {}
        """By source, a heap of (the count that it waits for, its number, it)."""
        self._ready: list[tuple[int, Item]] = []
        """A heap of (number, item)."""
        self._held = 0

    def __len__(self) -> int:
        """Everything that was put and not taken."""
        return self._held + len(self._ready)

    def __iter__(self) -> Iterator[Item]:
        """In the order in which it was put."""
        waiting = [(number, item) for heap in self._waiting.values() for _, number, item in heap]
        return iter([item for _, item in sorted([*self._ready, *waiting], key=_by_number)])

    @property
    def has_room(self) -> bool:
        return len(self) < self._items_max

    def put(self, item: Item) -> bool:
        """Return False when the item must wait and there is no room, and nothing was kept: the stack drops it where it
        will come again, and otherwise ends the session with the peer that sent it, from which the peer begins anew.
        There is always room for what may be delivered at once: others may wait for it."""
        if not self.has_room and self._missing(item) is not None:
            return False
        self._place(next(self._numbers), item)
        return True

    def take(self) -> Item | None:
        """The next that may be delivered. The stack delivers it, counts it, and says `reached`, before it takes
        another."""
        return heappop(self._ready)[1] if self._ready else None

    def reached(self, source: Source, at: int) -> None:
        """So many of this source are there now."""
        heap = self._waiting.get(source)
        if heap is None or heap[0][0] > at:
            return
        due: list[tuple[int, Item]] = []
        while heap and heap[0][0] <= at:
            _, number, item = heappop(heap)
            due.append((number, item))
        if not heap:
            del self._waiting[source]
        self._replace(due)

    def _replace(self, entries: list[tuple[int, Item]]) -> None:
        self._held -= len(entries)
        for number, item in entries:
            self._place(number, item)

    def _place(self, number: int, item: Item) -> None:
        need = self._missing(item)
        if need is None:
            heappush(self._ready, (number, item))
        else:
            source, at = need
            heappush(self._waiting.setdefault(source, []), (at, number, item))
            self._held += 1


def _by_number(entry: tuple[int, Item]) -> int:
    return entry[0]
