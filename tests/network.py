"""Virtual time and ordered streams, for tests that let parts of nodes talk to each other without a driver."""

import heapq
from collections.abc import Callable
from typing import Any

Action = Callable[[], Any]


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
