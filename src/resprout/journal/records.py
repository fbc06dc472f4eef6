"""What a machine persists and forgets, kept in a journal: the records from its floor on are those that it would be
given after a crash."""

from collections import deque
from collections.abc import Sequence

from resprout.core.contract import Forget, Persist
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
        """In this order, and together: all of it is kept, or DiskError is raised."""
        needed = self._needed
        position = self.journal.next
        records: list[bytes] = []
        for change in changes:
            if isinstance(change, Persist):
                needed.append(position + len(records))
                records.append(change.record)
            else:
                while len(needed) > max(0, change.count):
                    needed.popleft()
        self.journal.append(records, time_us, needed[0] if needed else position + len(records))
