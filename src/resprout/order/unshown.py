"""What of the log is not yet shown to local readers, and what may be shown next.

Entries stand in line as they were logged, and the first is shown when it is safe. While it is not, others may *pass*
it: those that certainly do not depend on it.

What is not safe goes to every neighbour, and each says that it has it before it says anything else (`order.reports`).
So whatever depends on such an entry, and comes from a neighbour, comes behind the neighbour's word that it has this
entry. A safe entry that comes from a neighbour therefore waits only for what lies up to the last place that the
neighbour is known to have (`Link.upto`), and up to the *wall*: wherever that argument does not hold, a wall is put
behind everything in line, and nothing that is logged later passes anything before it.

What local clients publish passes nothing. Totals pass nothing, and only `eventual` passes them: it has no order with
anything, so it waits only for what its own publisher sent in that stream before. That much order it keeps because
clients count what they were given from each publisher.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from resprout.core.bundle import Origin
from resprout.core.guarantee import Guarantee
from resprout.order.entry import Entry

ORIGINS_KEPT = 1_024
"""Before those are forgotten of which nothing waits any more."""

_EVENTUAL = Guarantee.EVENTUAL.stream


class Unshown:
    __slots__ = ("_before", "_eventual", "_eventual_wall", "_free", "_line", "_wall")

    def __init__(self) -> None:
        self._line: deque[Entry] = deque()
        """In log order. Whoever has passed others stays until it comes to the front, so the first is never shown."""
        self._free: list[tuple[int, int, Entry]] = []
        """Those that may pass, as a heap: (the place up to which everything must be shown before, its own, it)."""
        self._wall = -1
        """Nothing that is logged from now on passes anything up to this place."""
        self._eventual: dict[Origin, int] = {}
        """By origin, the place of the last `eventual` that may not pass."""
        self._before = -1
        """The same for the origin of the last entry, if that is `eventual`, without that entry."""
        self._eventual_wall = -1

    def __bool__(self) -> bool:
        return bool(self._line)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entry in self._line if not entry.shown)

    @property
    def first(self) -> Entry | None:
        return self._line[0] if self._line else None

    # -- standing in line ----------------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        self._line.append(entry)
        if entry.stream == _EVENTUAL:
            origin = (entry.publisher, entry.stream, entry.incarnation)
            self._before = self._eventual.get(origin, -1)
            self._eventual[origin] = entry.no
            if len(self._eventual) > ORIGINS_KEPT:
                first = self._line[0].no
                self._eventual = {origin: no for origin, no in self._eventual.items() if no >= first}

    def pop(self) -> Entry:
        """The last does not wait after all."""
        return self._line.pop()

    def let_pass(self, entry: Entry, upto: int) -> None:
        """The last, which is safe, depends on nothing beyond this place but what came the same way. That has no higher
        place to wait for, so it goes first."""
        bound = max(upto, self._wall)
        if entry.stream == _EVENTUAL:
            self._eventual[entry.publisher, entry.stream, entry.incarnation] = self._before
            bound = max(self._before, self._eventual_wall)
        if self._line[0] is not entry:
            heappush(self._free, (bound, entry.no, entry))

    def put_wall(self) -> None:
        """Nothing that is logged later passes what is in line now."""
        if self._line:
            self._wall = self._line[-1].no

    def line_up(self) -> None:
        """Nor does anybody in line pass anybody: too few others may have what was safe here, after a crash."""
        self._free.clear()
        self.put_wall()
        self._eventual_wall = self._wall

    # -- being shown ---------------------------------------------------------------------------------------------------

    def take_first(self) -> Entry:
        """To be shown at once, because it is safe."""
        line = self._line
        first = line.popleft()
        while line and line[0].shown:
            line.popleft()
        if not line:
            self._free.clear()
            self._eventual.clear()
        return first

    def take_passing(self) -> Entry | None:
        """One to be shown at once, before the first; None when nobody may pass it."""
        free = self._free
        while free and free[0][0] < self._line[0].no:
            entry = heappop(free)[2]
            if not entry.shown:
                return entry
        return None
