"""A part of a bundle, on its way from a durable subscription to one of its consumers, and collections of such parts.

A consumer names messages by origin and number, as often as it likes. So both collections find a part by its number
without looking at all others.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from resprout.core.bundle import Bundle, Origin, Pair
from resprout.edge.broker.ports import HeldBundle


class Portion:
    """Messages of one bundle that are somewhere together: waiting, or out with one consumer."""

    __slots__ = ("first", "holder", "item", "keys", "notice", "offsets", "origin", "redelivered", "serial")

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
        self.notice = 0
        """If that was told of dropped messages with it: the count of all that were dropped until then."""

    def cut(self, offsets: Sequence[int]) -> "Portion":
        """The same, of fewer messages."""
        return Portion(self.item, self.serial, offsets, self.keys, self.redelivered)

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
        for portion in sorted([*portions, *self.take_all()], key=lambda each: (each.serial, each.offsets[0])):
            self.append(portion)

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

    def _count(self, portion: Portion) -> None:
        self.messages += len(portion.offsets)
        if portion.redelivered:
            self._again.add(portion)


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
