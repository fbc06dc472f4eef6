"""What all networks of the tests are made of that have no driver: virtual time, streams and timers.

`Network` carries what nodes say in virtual time, each as late as is asked for. `Streams` and `Alarms` are for tests
that decide themselves what happens next, and so go through interleavings that no latency would give.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from resprout.core.contract import Timer

Action = Callable[[], Any]
Pair = tuple[str, str]
"""(sender, receiver)."""
Item = TypeVar("Item")
Owner = TypeVar("Owner", bound=Hashable)


class Time:
    """Actions at their times; equal times in the order of entry."""

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us
        self.events = 0
        """How many actions have happened."""
        self._calendar: list[tuple[int, int, Action]] = []
        self._entries = 0

    @property
    def next_us(self) -> int | None:
        """When something happens next; None: never."""
        return self._calendar[0][0] if self._calendar else None

    def at(self, when_us: int, action: Action) -> None:
        self._entries += 1
        heapq.heappush(self._calendar, (when_us, self._entries, action))

    def after(self, delay_us: int, action: Action) -> None:
        self.at(self.now_us + delay_us, action)

    def pass_on(self, until_us: int | None = None) -> bool:
        """Let the next action happen; False when there is none by then. Time never goes back."""
        if not self._calendar or (until_us is not None and self._calendar[0][0] > until_us):
            return False
        when_us, _, action = heapq.heappop(self._calendar)
        self.now_us = max(self.now_us, when_us)
        self.events += 1
        action()
        return True


class Network(Time):
    """Streams between nodes, by name: what one says to another arrives in order, each as late as is asked for."""

    def __init__(self, now_us: int = 0) -> None:
        super().__init__(now_us)
        self._last: dict[tuple[str, str], int] = {}

    def carry(self, sender: str, receiver: str, delay_us: int, arrive: Action, gap_us: int = 0) -> None:
        """`gap_us`: at least so long behind the one before."""
        earliest_us = self._last.get((sender, receiver), -gap_us) + gap_us
        when_us = self._last[sender, receiver] = max(self.now_us + delay_us, earliest_us)
        self.at(when_us, arrive)


class Streams(Generic[Item]):
    """What is under way between nodes, for each pair in the order in which it was said. No time passes."""

    def __init__(self) -> None:
        self._under_way: dict[Pair, deque[Item]] = {}

    def put(self, sender: str, receiver: str, item: Item) -> None:
        self._under_way.setdefault((sender, receiver), deque()).append(item)

    def put_before(self, sender: str, receiver: str, item: Item) -> None:
        """As if it had been said before all that is under way."""
        self._under_way.setdefault((sender, receiver), deque()).appendleft(item)

    def busy(self) -> list[Pair]:
        """Between whom anything is under way."""
        return [pair for pair, items in self._under_way.items() if items]

    def between(self, sender: str, receiver: str) -> list[Item]:
        """The oldest first."""
        return list(self._under_way.get((sender, receiver), ()))

    def take(self, sender: str, receiver: str, place: int = 0) -> Item:
        """The oldest arrives; or a later one, where the network under test keeps no order."""
        items = self._under_way[sender, receiver]
        item = items[place]
        del items[place]
        return item

    def cut(self, sender: str, receiver: str, arriving: int = 0) -> None:
        """All but the oldest few are lost."""
        items = self._under_way.get((sender, receiver), deque())
        while len(items) > arriving:
            items.pop()


class Alarms(Generic[Owner]):
    """Timers that nodes have set, and the time, which passes only when one fires."""

    def __init__(self) -> None:
        self.now_us = 0
        self._due_us: dict[tuple[Owner, Timer], int] = {}

    def set(self, owner: Owner, timer: Timer, at_us: int) -> None:
        self._due_us[owner, timer] = at_us

    def is_set(self, owner: Owner, timer: Timer) -> bool:
        return (owner, timer) in self._due_us

    def cancel(self, owner: Owner, timer: Timer) -> None:
        self._due_us.pop((owner, timer), None)

    def cancel_all(self, owner: Owner) -> None:
        for key in [key for key in self._due_us if key[0] == owner]:
            del self._due_us[key]

    def __iter__(self) -> Iterator[tuple[Owner, Timer, int]]:
        """(whose, which, when), in the order in which they were set for the first time."""
        for (owner, timer), at_us in list(self._due_us.items()):
            yield owner, timer, at_us

    def first(self, but: Callable[[Timer, int], bool] = lambda timer, at_us: False) -> tuple[Owner, Timer] | None:
        """Which one is due first; of equal ones the one that was set first. None: nothing is set, or all are left
        out."""
        due = [(owner, timer, at_us) for owner, timer, at_us in self if not but(timer, at_us)]
        return min(due, key=lambda one: one[2])[:2] if due else None

    def fire(self, owner: Owner, timer: Timer) -> None:
        """It is that time now, unless it is later already."""
        self.now_us = max(self.now_us, self._due_us.pop((owner, timer)))
