"""The last minutes of a broker, for somebody who looks only after something has happened.

Points of rates are aligned to the wall clock, so the points of several brokers can be added. Brokers that were known
and are gone are kept with the place that they had.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from resprout.net.accounts import DepartedBroker, HistoryPoint
from resprout.stacks.status import MemberSeen

STEP_SECONDS: Final = 5
POINTS_MAX: Final = 120
"""Ten minutes."""
DEPARTED_MAX: Final = 100


class History:
    def __init__(self) -> None:
        self._points: deque[HistoryPoint] = deque(maxlen=POINTS_MAX)
        self._step = 0
        self._published = 0
        self._delivered = 0
        self._living: dict[str, MemberSeen] = {}
        self._departed: deque[DepartedBroker] = deque(maxlen=DEPARTED_MAX)

    def is_due(self, time_s: float) -> bool:
        """Whether a step of the wall clock has ended since the last point."""
        return int(time_s // STEP_SECONDS) != self._step

    def add(
        self, time_s: float, published: int, delivered: int, clients: int, members: Iterable[MemberSeen] | None
    ) -> None:
        """Add a point. `published` and `delivered` are counts since the process began; `members` is None while the
        broker has no place in a tree."""
        before, self._step = self._step, int(time_s // STEP_SECONDS)
        if before and 0 < self._step - before <= POINTS_MAX:
            passed_s = (self._step - before) * STEP_SECONDS
            point = HistoryPoint(
                time=self._step * STEP_SECONDS,
                publications=round((published - self._published) / passed_s, 2),
                deliveries=round((delivered - self._delivered) / passed_s, 2),
                clients=clients,
            )
            self._points.append(point)
        self._published, self._delivered = published, delivered
        if members is not None:
            self._compare(members, time_s)

    def points(self) -> tuple[HistoryPoint, ...]:
        return tuple(self._points)

    def departed(self, time_s: float) -> tuple[DepartedBroker, ...]:
        """Brokers that have gone in the time that the points cover, and have not returned."""
        oldest_s = time_s - POINTS_MAX * STEP_SECONDS
        return tuple([one for one in self._departed if one.time >= oldest_s and one.name not in self._living])

    def _compare(self, members: Iterable[MemberSeen], time_s: float) -> None:
        living = {member.name: member for member in members if not member.dead}
        for name, member in self._living.items():
            if name not in living:
                self._departed.append(DepartedBroker(name, round(time_s, 3), member.parent))
        self._living = living
