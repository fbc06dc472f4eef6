"""The places of late messages in the order of a broker, for clients of a dead broker that may lack them.

A *late* message comes around a dead broker, and was not wanted here when that one had it. Messages that were shown here
meanwhile may depend on it. Clients of the dead broker wanted it and may lack both, so they are handed over all of them
in causal order: a late message stands where a header first named it here (`skipped`), and before every late message
that depends on it (`settle`).
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from resprout_lab.blocks.multicast.copies import ClockEntry, Copy, Entries


class LatePlaces:
    def __init__(self, kept: int) -> None:
        """`kept`: the entries that are remembered, the latest."""
        self._skipped: deque[tuple[ClockEntry, int, int]] = deque(maxlen=kept)
        """(group and member, number, place)."""
        self._late: list[Copy] = []
        """In the order in which they were delivered."""

    def skipped(self, entries: Entries, place: int) -> None:
        """From this place on, messages may depend on these."""
        self._skipped.extend([(*one, place) for one in entries])

    def put(self, copy: Copy) -> None:
        """It is late, and all before it has been put."""
        self._late.append(copy)
        places = (place for entry, number, place in self._skipped if entry == copy.entry and number >= copy.number)
        copy.item.no = next(places, copy.item.no)

    def settle(self) -> None:
        """All have come: move each before the late ones that name it."""
        late, self._late = self._late, []
        bounds: dict[ClockEntry, int] = {}
        named: dict[ClockEntry, list[tuple[int, int]]] = {}
        """A heap of (number, negative, and the place of who names it)."""
        for copy in reversed(late):
            heap = named.get(copy.entry, [])
            while heap and -heap[0][0] >= copy.number:
                place = heappop(heap)[1]
                bounds[copy.entry] = min(place, bounds.get(copy.entry, place))
            copy.item.no = min(copy.item.no, bounds.get(copy.entry, copy.item.no))
            for entry, number in copy.entries:
                heappush(named.setdefault(entry, []), (-number, copy.item.no))


def in_order(copies: Sequence[Copy]) -> list[Copy]:
    """As clients of the dead are handed them over: late ones first among those in one place."""
    return sorted(copies, key=lambda copy: (copy.item.no, not copy.is_late))
