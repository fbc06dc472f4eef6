"""Whether the overlay is in parts: what somebody has that is no neighbour should come by way of neighbours.

Neighbours cannot tell. A few that have each other, and are full, never look for anybody else; and between them nothing
is missing. So everybody compares now and then with one that it only knows. If what that one has is missing here, and
still is some time later, there is no way from there to here, or one that is much too slow: then it is to be a
neighbour.
"""

from collections.abc import Callable
from typing import Final

from resprout.core.contract import Outcome, Timer
from resprout.core.seen import SeenRanges
from resprout_lab.gossip.broadcast.messages import OfferList

DOUBTS_MAX: Final = 8
"""That is waited for at the same time, each of another one. Who comes beyond that will compare again."""


class Apart(Outcome, frozen=True):
    """This one, who is no neighbour, has what does not come here."""

    name: str


class ApartDue(Timer, frozen=True):
    """When what one has that is no neighbour should have come."""

    name: str


class Doubts:
    def __init__(self, seen: SeenRanges, wake: Callable[[Timer], None]) -> None:
        """`wake`: when there was time enough for what neighbours have to come."""
        self._seen = seen
        self._wake = wake
        self._doubts: dict[str, OfferList] = {}
        """What others have, and was missing here."""

    def note(self, name: str, offers: OfferList) -> None:
        """It is no neighbour, and has these."""
        if name not in self._doubts and len(self._doubts) < DOUBTS_MAX and self._lacks(offers):
            self._doubts[name] = offers
            self._wake(ApartDue(name))

    def is_apart(self, name: str) -> bool:
        """Whether what it had is missing still. If so, the others are not waited for: what they have may come by this
        one."""
        found = self._lacks(self._doubts.pop(name, ()))
        if found:
            self._doubts.clear()
        return found

    def _lacks(self, offers: OfferList) -> bool:
        return any(self._seen.missing(one.origin, first, last) for one in offers for first, last in one.ranges)
