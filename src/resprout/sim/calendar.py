"""What is to happen, by virtual time: the heart of the world.

Entries of one instant happen in the order in which they were entered, so a run is a function of its inputs. Most
entries share their instant with others (a flood over links of equal latency), therefore a heap of distinct times with
a list for each: a third of the cost of a heap of (time, counter) pairs, and the same order.

An entry is *idle* when it will not make work of its own accord: housekeeping, and what was cancelled. When only idle
entries are pending, nothing more happens that anybody waits for.
"""

from collections.abc import Callable
from heapq import heappush
from typing import Any

Action = Callable[[Any, Any], None]
CalendarEntry = tuple[Action, Any, Any]


class Calendar:
    """`World.run` empties it, and enters frames into it without calling `at`: that is the hot path."""

    __slots__ = ("entries", "idle", "now_us", "pending", "quiet", "times")

    def __init__(self) -> None:
        self.now_us = 0
        self.times: list[int] = []
        """A heap of the distinct times of `entries`."""
        self.entries: dict[int, list[CalendarEntry]] = {}
        self.pending = 0
        """How many entries there are in all."""
        self.idle = 0
        """How many of them are idle. Whoever cancels an entry counts it here, and takes it out again when it comes."""
        self.quiet = False
        """Whether what happens right now is housekeeping: an idle entry, and what it causes directly."""

    def at(self, time_us: int, action: Action, first: Any = None, second: Any = None) -> None:
        """Call `action(first, second)` at a time that is not in the past."""
        entry = (action, first, second)
        bucket = self.entries.get(time_us)
        if bucket is None:
            self.entries[time_us] = [entry]
            heappush(self.times, time_us)
        else:
            bucket.append(entry)
        self.pending += 1

    def at_idly(self, time_us: int, action: Action, first: Any = None, second: Any = None) -> None:
        """The same as housekeeping: nobody waits for it."""
        self.at(time_us, self.housekeep, action, (first, second))
        self.idle += 1

    def housekeep(self, action: Action, arguments: tuple[Any, Any]) -> None:
        """The action of idle entries; only the calendar calls it."""
        self.idle -= 1
        self.quiet = True
        action(*arguments)
        self.quiet = False

    def erase(self, wanted: Callable[[Action, Any, Any], bool]) -> None:
        """Strike out the entries after this instant for which `wanted(action, first, second)` holds; they are offered
        in the order in which they would come.

        For rare events such as crashes: it walks through everything that is pending.
        """
        for time_us in sorted(self.times):
            if time_us <= self.now_us:
                continue  # what comes at this instant has arrived already
            bucket = self.entries[time_us]
            for place, (action, first, second) in enumerate(bucket):
                if action == self.housekeep:
                    if wanted(first, *second):
                        bucket[place] = (action, nothing, (None, None))
                elif wanted(action, first, second):
                    bucket[place] = (nothing, None, None)


def nothing(first: Any, second: Any) -> None:
    """The action of an entry that was struck out."""
