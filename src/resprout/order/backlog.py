"""Totals that are known and not yet delivered: whose they are, and how many and how heavy all together.

A client has few undelivered totals at a time, so honest brokers exceed the soft bounds only by what was under way when
they were reached. The hard bounds are far beyond that.
"""

from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.order.total_messages import TotalId

FULL_TOTALS: Final = 4_096
FULL_BYTES: Final = 64 << 20
"""From here on local clients wait with their totals."""
OWN_TOTALS: Final = 64
"""Bundles of totals that one client has under way before it waits with more: many rounds of closing at once."""

HARD_FACTOR: Final = 16
"""So many times that, and the peer that brings still more is cut off."""


class Backlog:
    __slots__ = ("_bytes", "_of", "count")

    def __init__(self) -> None:
        self._of: dict[str, dict[TotalId, Bundle]] = {}
        self._bytes = 0
        self.count = 0

    def add(self, id: TotalId, bundle: Bundle) -> None:
        """Nothing happens when it is known already."""
        mine = self._of.setdefault(bundle.publisher, {})
        if id not in mine:
            mine[id] = bundle
            self.count += 1
            self._bytes += bundle.cost

    def remove(self, id: TotalId) -> None:
        mine = self._of.get(id[0], {})
        bundle = mine.pop(id, None)
        if bundle is not None:
            self.count -= 1
            self._bytes -= bundle.cost
            if not mine:
                del self._of[id[0]]

    def of(self, publisher: str) -> tuple[Bundle, ...]:
        """Oldest first."""
        return tuple(self._of.get(publisher, {}).values())

    def has_room_for(self, publisher: str) -> bool:
        """Whether a local client should go on with its totals."""
        return not self.full and len(self._of.get(publisher, ())) < OWN_TOTALS

    @property
    def full(self) -> bool:
        return self.count >= FULL_TOTALS or self._bytes >= FULL_BYTES

    def check_room(self, count: int = 1, cost: int = 0) -> None:
        """Raises PeerError when so many more are more than can be kept."""
        if self.count + count > HARD_FACTOR * FULL_TOTALS or self._bytes + cost > HARD_FACTOR * FULL_BYTES:
            raise PeerError(f"{self.count + count} undelivered totals of {self._bytes + cost} bytes are too many")
