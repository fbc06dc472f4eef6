"""What is done of durable subscriptions that live here, and may not be known everywhere yet: consumers remember it.

Everybody is told with the signs of life, and nobody answers. A broker that is cut off does not notice at once; but
while all neighbours are heard, what was said a lease ago has arrived. Until then a consumer that lives brings it along
to the next home; also what others have done, which it is told when it comes, and when a neighbour is not heard.
"""

from resprout.core.bundle import Origin
from resprout.core.marks import Marks, Reached, raise_to, to_marks


class UnknownDone:
    """Of one subscription. Two generations: what is noted is remembered until the next turn but one."""

    __slots__ = ("_before", "_latest", "_shared", "_turned_us")

    def __init__(self, now_us: int) -> None:
        self._latest: dict[Origin, Reached] = {}
        self._before: dict[Origin, Reached] = {}
        self._shared: Marks = ()
        self._turned_us = now_us

    def note(self, marks: Marks) -> None:
        """Everybody is being told."""
        raise_to(self._latest, marks)

    def turn(self, now_us: int, period_us: int) -> Marks:
        """While everybody is heard: what is known everywhere by now."""
        if now_us - self._turned_us < period_us:
            return ()
        self._turned_us = now_us
        known, self._before, self._latest = self._before, self._latest, {}
        return to_marks(known)

    def all(self) -> Marks:
        return to_marks(raise_to(dict(self._before), to_marks(self._latest)))

    def unshared(self) -> Marks:
        """All, if it is more than when this was asked last."""
        marks = self.all()
        if marks == self._shared:
            return ()
        self._shared = marks
        return marks
