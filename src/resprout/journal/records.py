"""What a machine persists and forgets, kept in a journal: the records from its floor on are those that it would be
given after a crash."""

from collections import deque
from collections.abc import Sequence

from resprout.core.contract import Forget, Persist
from resprout.journal.errors import DiskError
from resprout.journal.journal import Journal


class Records:
    """DamagedError when what is needed was spoiled, DiskError when it cannot be read."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._needed = deque(kept.position for kept in journal.reader().all_from(journal.floor))
        """Positions of the records that are not forgotten. There may be gaps where a damaged journal was mended."""

    def __len__(self) -> int:
        return len(self._needed)

    def read(self) -> list[bytes]:
        """The records that are not forgotten, oldest first."""
        journal = self.journal
        return [kept.record for kept in journal.reader().all_from(journal.floor)]

    def apply(self, changes: Sequence[Persist | Forget], time_us: int) -> None:
        """In this order, and together: all of it is kept, or DiskError is raised and nothing has changed (unless it is
        written, see there)."""
        position = self.journal.next
        records = [change.record for change in changes if isinstance(change, Persist)]
        floor = self._floor_after(changes, position)
        try:
            self.journal.append(records, time_us, floor)
        except DiskError as error:
            if error.is_written:
                self._take(position, len(records), floor)
            raise
        self._take(position, len(records), floor)

    def _floor_after(self, changes: Sequence[Persist | Forget], position: int) -> int:
        """The first position that is needed when these are done; `position` is the one of the first record."""
        last = position
        left = len(self._needed)
        """Records that are not forgotten, of those before and those among the changes."""
        for change in changes:
            if isinstance(change, Persist):
                last += 1
                left += 1
            else:
                left = min(left, max(0, change.count))
        behind = last - position
        return last - left if left <= behind else self._needed[len(self._needed) - (left - behind)]

    def _take(self, position: int, count: int, floor: int) -> None:
        self._needed.extend(range(position, position + count))
        while self._needed and self._needed[0] < floor:
            self._needed.popleft()
