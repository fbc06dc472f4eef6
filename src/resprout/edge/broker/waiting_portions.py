"""Messages of a durable subscription that no consumer has: the queue, and one queue for each priority."""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, merge

from resprout.core.bundle import Origin
from resprout.core.timing import PRIORITY_MAX
from resprout.edge.broker.portion import IndexByOrigin, Portion


class WaitingPortions:
    """Portions that nobody has, in the order in which they will be handed out. Those that were handed out before are
    found by number. A portion that is removed inside stays in the queue until it is at the front, or until half of the
    queue consists of such. What comes back is kept beside the queue, so that its place need not be looked for there."""

    __slots__ = ("_again", "_back", "_queue", "_removed", "_serial", "messages")

    def __init__(self) -> None:
        self._queue: deque[Portion] = deque()
        self._back: list[tuple[tuple[int, int], int, Portion]] = []
        """Heap of portions that came back, by their places."""
        self._serial = 0
        self._again = IndexByOrigin()
        self._removed: set[Portion] = set()
        self.messages = 0
        """In all of them."""

    def __len__(self) -> int:
        return len(self._queue) + len(self._back) - len(self._removed)

    def __iter__(self) -> Iterator[Portion]:
        back = [portion for *_, portion in sorted(self._back)] if self._back else []
        portions = merge(back, self._queue, key=place_of) if back else iter(self._queue)
        return (portion for portion in portions if portion not in self._removed)

    def append(self, portion: Portion) -> None:
        self._queue.append(portion)
        self._count(portion)

    def appendleft(self, portion: Portion) -> None:
        """Let a portion wait that was the first one just now."""
        self._queue.appendleft(portion)
        self._count(portion)

    def popleft(self) -> Portion:
        while True:
            if self._back and (not self._queue or self._back[0][0] <= place_of(self._queue[0])):
                portion = heappop(self._back)[-1]
            else:
                portion = self._queue.popleft()
            if portion not in self._removed:
                break
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
        self._back.clear()
        self._again.clear()
        self._removed.clear()
        self.messages = 0
        return portions

    def put_back(self, portions: Iterable[Portion]) -> None:
        """Let portions that were handed out wait in their old places."""
        for portion in portions:
            self._serial += 1
            heappush(self._back, (place_of(portion), self._serial, portion))
            self._count(portion)

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
        if 2 * len(self._removed) > len(self._queue) + len(self._back):
            self._queue = deque(self)
            self._back.clear()
            self._removed.clear()

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


def place_of(portion: Portion) -> tuple[int, int]:
    return portion.serial, portion.offsets[0]
