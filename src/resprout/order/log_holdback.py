"""The hold-back queue of a log: entries that are not yet shown to local readers, and which may be shown next.

Entries wait in log order, and the first one is shown when it is safe. While it is not safe, later entries may *pass*
it if they certainly do not depend on it.

An entry that is not safe goes to every neighbour, and each neighbour confirms it before it sends anything else
(`order.reports`). So a bundle from a neighbour that depends on such an entry comes behind the neighbour's confirmation.
A safe bundle from a neighbour therefore waits only for entries up to the last place that the neighbour has confirmed
(`Link.upto`), and for entries before the *wall*. Where the argument does not hold, a wall is put behind all waiting
entries: no entry that is logged later passes an entry before the wall.

Publications of local clients pass nothing. Totals pass nothing, and nothing passes them.

`eventual` has no order with other guarantees, so it has a queue of its own. There, an entry that is safe when it comes
waits only for earlier entries of its publisher that may not pass, because clients count what they were given from each
publisher.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from resprout.core.guarantee import Guarantee
from resprout.order.entry import Entry

PUBLISHERS_KEPT = 1_024
"""Entries in `_held` above which publishers without waiting `eventual` entries are dropped from it."""

_EVENTUAL = Guarantee.EVENTUAL.stream


class Line:
    """A hold-back queue: entries in log order, and those that may pass others."""

    __slots__ = ("entries", "free")

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()
        """In log order. An entry that has passed others stays until it comes to the front, so the first one is never
        shown."""
        self.free: list[tuple[int, int, Entry]] = []
        """Entries that may pass, as a heap: (place up to which everything must be shown first, own place, entry)."""

    def __iter__(self) -> Iterator[Entry]:
        for entry in self.entries:
            if not entry.shown:
                yield entry

    def let_pass(self, entry: Entry, bound: int) -> None:
        heappush(self.free, (bound, entry.no, entry))

    def take_first(self) -> Entry:
        line = self.entries
        first = line.popleft()
        while line and line[0].shown:
            line.popleft()
        if not line:
            self.free.clear()
        return first

    def take_passing(self) -> Entry | None:
        """Remove and return an entry that may be shown before the first; None if there is none."""
        free, first = self.free, self.entries[0]
        while free and free[0][0] < first.no:
            entry = heappop(free)[2]
            if not entry.shown:
                return entry
        return None


class LogHoldBack:
    """The hold-back queues of a log: one for ordered entries, one for `eventual`."""

    __slots__ = ("_before", "_eventual", "_eventual_wall", "_held", "_is_safe", "_latest", "_ordered", "_wall")

    def __init__(self, is_safe: Callable[[Entry], bool]) -> None:
        self._is_safe = is_safe
        self._ordered = Line()
        self._wall = -1
        """Nothing that is logged from now on passes any entry up to this place."""
        self._eventual = Line()
        self._eventual_wall = -1
        self._held: dict[str, int] = {}
        """By publisher, the place of its last `eventual` entry that may not pass."""
        self._before = -1
        """If the entry that was appended last is `eventual`: what `_held` said of its publisher before."""
        self._latest = self._ordered
        """The queue of the last entry."""

    def __bool__(self) -> bool:
        return bool(self._ordered.entries or self._eventual.entries)

    def __iter__(self) -> Iterator[Entry]:
        yield from self._ordered
        yield from self._eventual

    @property
    def first_ordered(self) -> float:
        """The place of the first ordered entry that waits; infinity if none does."""
        entries = self._ordered.entries
        return entries[0].no if entries else math.inf

    @property
    def first(self) -> Entry | None:
        """The waiting entry with the lowest place; None if none waits."""
        firsts = [line.entries[0] for line in (self._ordered, self._eventual) if line.entries]
        return min(firsts, key=lambda entry: entry.no, default=None)

    # -- standing in line ----------------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        if entry.stream != _EVENTUAL:
            self._latest = self._ordered
        else:
            self._latest = self._eventual
            self._hold(entry)
        self._latest.entries.append(entry)

    def pop(self) -> Entry:
        """Remove the last entry: it need not wait."""
        return self._latest.entries.pop()

    def let_pass(self, entry: Entry, upto: int) -> None:
        """Let the entry that was appended last, and is safe, pass others. It depends on nothing beyond the place `upto`
        except on entries that came over the same link. Those have no higher bound, so they are shown first."""
        line = self._latest
        if line is self._ordered:
            bound = max(upto, self._wall)
        else:
            self._held[entry.publisher] = self._before
            bound = max(self._before, self._eventual_wall)
        if line.entries[0] is not entry:
            line.let_pass(entry, bound)

    def put_wall(self) -> None:
        """Put the wall behind all ordered entries that wait now: later entries do not pass them."""
        if self._ordered.entries:
            self._wall = self._ordered.entries[-1].no

    def line_up(self) -> None:
        """Like `put_wall`, and let no waiting entry pass any more: after a crash, too few brokers may have what was
        safe here."""
        self._ordered.free.clear()
        self._eventual.free.clear()
        self.put_wall()
        if self._eventual.entries:
            self._eventual_wall = max(self._eventual_wall, self._eventual.entries[-1].no)

    def _hold(self, entry: Entry) -> None:
        held = self._held
        self._before = held.get(entry.publisher, -1)
        held[entry.publisher] = entry.no
        if len(held) > PUBLISHERS_KEPT:
            waiting = self._eventual.entries
            lowest = waiting[0].no if waiting else entry.no
            self._held = {publisher: no for publisher, no in held.items() if no >= lowest}

    # -- being shown ---------------------------------------------------------------------------------------------------

    def take(self) -> Entry | None:
        """Remove and return the next entry to show, which must be shown at once; None if there is none."""
        for line in (self._ordered, self._eventual):
            if line.entries:
                if self._is_safe(line.entries[0]):
                    return line.take_first()
                if line.free and (passing := line.take_passing()) is not None:
                    return passing
        return None

    def take_first(self) -> Entry:
        """Remove and return the waiting entry with the lowest place, which is safe and must be shown at once."""
        ordered = self._ordered.entries
        return (self._ordered if ordered and self.first is ordered[0] else self._eventual).take_first()
