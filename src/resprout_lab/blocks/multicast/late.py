"""The places of late messages in the order of a broker, for clients of a dead broker that may lack them.

A *late* message came around a dead broker, and was not subscribed here when that broker had it. Messages that were
shown here meanwhile may depend on it. Clients of the dead broker subscribed to it and may lack both, so they get all of
them in causal order: a late message stands where a header first named it here (`skipped`), and before every late
message that depends on it (`settle`).
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from resprout_lab.blocks.multicast.copies import ClockEntry, Copy, Entries


class LatePlaces:
    def __init__(self, kept: int) -> None:
        """`kept`: number of entries that are remembered, the latest ones."""
        self._skipped: deque[tuple[ClockEntry, int, int]] = deque(maxlen=kept)
        """(group and member, number, place)."""
        self._late: list[Copy] = []
        """Late messages, in the order of their delivery."""

    def skipped(self, entries: Entries, place: int) -> None:
        """Note that messages from this place on may depend on these entries."""
        self._skipped.extend([(*one, place) for one in entries])

    def put(self, copy: Copy) -> None:
        """Add a late message, after all earlier ones."""
        self._late.append(copy)
        places = (place for entry, number, place in self._skipped if entry == copy.entry and number >= copy.number)
        copy.item.no = next(places, copy.item.no)

    def settle(self) -> None:
        """Move each late message before those that name it, once all have come."""
        late, self._late = self._late, []
        bounds: dict[ClockEntry, int] = {}
        named: dict[ClockEntry, list[tuple[int, int]]] = {}
        """A heap of (negative number, place of the message that names it), by group and member."""
        for copy in reversed(late):
            heap = named.get(copy.entry, [])
            while heap and -heap[0][0] >= copy.number:
                place = heappop(heap)[1]
                bounds[copy.entry] = min(place, bounds.get(copy.entry, place))
            copy.item.no = min(copy.item.no, bounds.get(copy.entry, copy.item.no))
            for entry, number in copy.entries:
                heappush(named.setdefault(entry, []), (-number, copy.item.no))


def in_order(copies: Sequence[Copy]) -> list[Copy]:
    """Return copies in the order in which clients of a dead broker get them: late ones first among those at one
    place."""
    return sorted(copies, key=lambda copy: (copy.item.no, not copy.is_late))
