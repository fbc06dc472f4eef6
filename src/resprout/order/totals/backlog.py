"""Totals that are under way, and what is carried as one: whose they are, and how many and how heavy all together.

Every broker knows nearly all of them, so every broker can tell a fair share: a client has no more under way than the
bound for all, divided by the clients that have any, and always one. Whoever has the most is held back first, wherever
it is; what it publishes then waits in its queue, and a long queue holds the client back in turn. Keys play no part: a
hot one makes nobody wait who does not publish on it.

Honest brokers exceed the bounds for all only by what was under way when they were reached. The hard bounds are far
beyond that.
"""

from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.order.totals.messages import TotalId

FULL_TOTALS: Final = 4_096
FULL_BYTES: Final = 64 << 20
"""All together; what clients share."""
OWN_TOTALS: Final = 64
OWN_BYTES: Final = 4 << 20
"""Of one client, bundles and bytes: many rounds of closing at once."""
UNORDERED_TOTALS: Final = 16
"""Of one client, those that have no place yet: others cannot know of them and keep to their share."""

HARD_FACTOR: Final = 16
"""So many times what is for all, and the peer that brings still more is cut off."""


class Backlog:
    __slots__ = ("_bytes", "_bytes_of", "_of", "count")

    def __init__(self) -> None:
        self._of: dict[str, dict[TotalId, Bundle]] = {}
        self._bytes_of: dict[str, int] = {}
        self._bytes = 0
        self.count = 0

    def add(self, id: TotalId, bundle: Bundle) -> None:
        """Nothing happens when it is known already."""
        mine = self._of.setdefault(bundle.publisher, {})
        if id not in mine:
            mine[id] = bundle
            self.count += 1
            self._bytes += bundle.cost
            self._bytes_of[bundle.publisher] = self._bytes_of.get(bundle.publisher, 0) + bundle.cost

    def remove(self, id: TotalId) -> None:
        mine = self._of.get(id[0], {})
        bundle = mine.pop(id, None)
        if bundle is not None:
            self.count -= 1
            self._bytes -= bundle.cost
            self._bytes_of[id[0]] -= bundle.cost
            if not mine:
                del self._of[id[0]], self._bytes_of[id[0]]

    def has(self, id: TotalId) -> bool:
        return id in self._of.get(id[0], ())

    def has_any(self, publisher: str) -> bool:
        return publisher in self._of

    def of(self, publisher: str) -> tuple[Bundle, ...]:
        """Oldest first."""
        return tuple(self._of.get(publisher, {}).values())

    def has_room_for(self, publisher: str) -> bool:
        """Whether a local client may have one more under way."""
        mine = self._of.get(publisher)
        if mine is None:  # always one, unless so many have one that brokers could be blamed for passing theirs on
            return self.count < HARD_FACTOR * FULL_TOTALS // 4 and self._bytes < HARD_FACTOR * FULL_BYTES // 4
        sharing = len(self._of)
        return len(mine) < min(OWN_TOTALS, FULL_TOTALS // sharing) and self._bytes_of[publisher] < min(
            OWN_BYTES, FULL_BYTES // sharing
        )

    def check_room(self, count: int = 1, cost: int = 0) -> None:
        """Raises PeerError when so many more are more than can be kept."""
        if self.count + count > HARD_FACTOR * FULL_TOTALS or self._bytes + cost > HARD_FACTOR * FULL_BYTES:
            raise PeerError(f"{self.count + count} undelivered totals of {self._bytes + cost} bytes are too many")
