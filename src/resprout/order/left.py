"""What neighbours were told the last of a moment ago, as marks: they may not have heard it yet."""

from resprout.core.bundle import Origin
from resprout.core.message_fields import NOTHING, Reached
from resprout.order.entry import Entry


class Left:
    """Two generations: what is noted is remembered until the next turn but one."""

    __slots__ = ("_before", "_latest", "_turned_us")

    def __init__(self) -> None:
        self._latest: dict[Origin, Reached] = {}
        self._before: dict[Origin, Reached] = {}
        self._turned_us = 0

    def note(self, entry: Entry) -> None:
        """Nothing is left to say about it."""
        origin = entry.origin
        if entry.last > self._latest.get(origin, NOTHING):
            self._latest[origin] = entry.last

    def turn(self, now_us: int, period_us: int) -> None:
        """Once per period, while everybody is heard: what was said before the last turn has arrived."""
        if now_us - self._turned_us >= period_us:
            self._turned_us = now_us
            self._before, self._latest = self._latest, {}

    def marks(self) -> dict[Origin, Reached]:
        found = dict(self._before)
        for origin, at in self._latest.items():
            found[origin] = max(at, found.get(origin, NOTHING))
        return found
