"""Parts of causal orders: a vector clock for many groups, and a hold-back queue.

A `VectorClock` counts per *column* and *row*. In CBCAST (Birman, Schiper and Stephenson, 1991) a column is a group and
a row a member: the number of messages of that member to that group. In the headers of LoCaMu a column is a sender and a
row a target within the safe neighbourhood. Every change has a version, and a message carries only the changes since
some version (`since`). The stack remembers which version:

- *the sender's last message to the same group* (CBCAST). The changes are then the same for all receivers, on every
  path. A receiver needs no more: it delivers messages of one sender to one group in order, and the previous message
  needed what is left out. A new member of a group gets `since(0)`.
- *the last message on the same session*, where both ends know what was sent because links are FIFO. A new session, and
  what is sent again over another session, begins with `since(0)`.

Rows that count nothing are neither kept nor sent. Merging takes the maximum, so changes can be merged in any order and
repeatedly; whether a message may be delivered is asked before merging (`missing`).

A `HoldBack` queue keeps items until what they need has been delivered. The stack's test `missing(item)` names one thing
that the item waits for, as *(source, count)*, or returns None. A source is a member of a group, a pair of brokers or a
publisher. An item waits for one thing at a time, so it is tested again only when that count is reached. Counts only
rise, so an item that may be delivered stays deliverable. Deliverable items come out in the order in which they were
put. The queue does not detect duplicates: the stack asks `core.seen` before or after.

Used by CBCAST (a count per group and member), LoCaMu (per pair of brokers) and Causal Barriers (per sender).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count, takewhile
from typing import Final, Generic, TypeVar

from resprout.core.errors import PeerError

Column = tuple[str, tuple[tuple[str, int], ...]]
"""(group or sender, ((member or target, count), ...))."""
Changes = tuple[Column, ...]
"""As they travel: columns by name, rows by name."""

COUNT_MAX: Final = 1 << 53
"""No count of messages gets here; a peer that claims it would leave no room for those that follow."""
ENTRIES_MAX: Final = 1 << 18
"""Of one clock, and of what one message carries. The largest setting of LoCaMu's thesis has 259,019 memberships."""

PAPER_COLUMN_BYTES: Final = 4
PAPER_ENTRY_BYTES: Final = 4

Source = TypeVar("Source", bound=Hashable)
Item = TypeVar("Item")

ITEMS_HELD_MAX: Final = 100_000
"""Unless the stack says otherwise. Whoever sends more in advance has lost the way: see `put`."""


class VectorClock:
    __slots__ = ("_columns", "_versions", "version")

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, int]] = {}
        self._versions: dict[tuple[str, str], int] = {}
        """(column, row) -> when it changed last; the latest change last."""
        self.version = 0
        """Counts changes. What has changed up to now is `since` any number below this one."""

    def __len__(self) -> int:
        """Entries that count anything."""
        return len(self._versions)

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        for column, row in self._versions:
            yield column, row, self._columns[column][row]

    def at(self, column: str, row: str) -> int:
        rows = self._columns.get(column)
        return 0 if rows is None else rows.get(row, 0)

    # -- changes -------------------------------------------------------------------------------------------------------

    def tick(self, column: str, row: str) -> int:
        """The number of the next message."""
        number = self.at(column, row) + 1
        self._set(column, row, number)
        return number

    def raise_to(self, column: str, row: str, number: int) -> None:
        if number > self.at(column, row):
            self._set(column, row, number)

    def merge(self, changes: Changes) -> None:
        """The maximum of both. PeerError when that is more than a clock holds."""
        for column, rows in changes:
            for row, number in rows:
                self.raise_to(column, row, number)

    def forget(self, column: str) -> None:
        """The group, or the sender, is gone."""
        for row in self._columns.pop(column, ()):
            del self._versions[column, row]

    def _set(self, column: str, row: str, number: int) -> None:
        key = (column, row)
        if self._versions.pop(key, None) is None and len(self._versions) >= ENTRIES_MAX:
            raise PeerError(f"a clock of more than {ENTRIES_MAX} entries")
        self._columns.setdefault(column, {})[row] = number
        self.version += 1
        self._versions[key] = self.version

    # -- what travels --------------------------------------------------------------------------------------------------

    def since(self, version: int) -> Changes:
        """What has changed after that version; 0: everything. It costs as much as it is long."""
        changed = takewhile(lambda key: self._versions[key] > version, reversed(self._versions))
        return as_changes([(key, self._columns[key[0]][key[1]]) for key in sorted(changed)])

    def missing(
        self,
        changes: Changes,
        own: tuple[str, str] | None = None,
        is_mine: Callable[[str, str], bool] | None = None,
    ) -> tuple[tuple[str, str], int] | None:
        """An entry of these that is not reached here, as `HoldBack` wants it; None when the message that carries
        them may be delivered. `own`: the entry that counts this very message; it waits for the one before it.
        `is_mine`: only such entries; what concerns others cannot be waited for here, it is only carried on."""
        for column, rows in changes:
            for row, number in rows:
                needed = number - 1 if own == (column, row) else number
                if needed > self.at(column, row) and (is_mine is None or is_mine(column, row)):
                    return (column, row), needed
        return None


def as_changes(entries: Iterable[tuple[tuple[str, str], int]]) -> Changes:
    """These counts by (column, row), as they travel: columns and rows in the order in which they come."""
    found: dict[str, list[tuple[str, int]]] = {}
    for (column, row), number in entries:
        found.setdefault(column, []).append((row, number))
    return tuple([(column, tuple(rows)) for column, rows in found.items()])


def check_changes(changes: Changes) -> None:
    """PeerError for what no honest peer sends."""
    if sum(len(rows) for _, rows in changes) > ENTRIES_MAX:
        raise PeerError(f"a clock of more than {ENTRIES_MAX} entries")
    if any(not 0 < number <= COUNT_MAX for _, rows in changes for _, number in rows):
        raise PeerError(f"a clock counts from 1 to {COUNT_MAX}")


# -- what the papers count ---------------------------------------------------------------------------------------------


def paper_bytes(changes: Changes) -> int:
    """Compressed: a name of 4 bytes for each column, and for each entry a name and a number of 4 bytes each. The
    formula that LoCaMu's thesis prints for CBCAST has 4 bytes for an entry; its example, 12 bytes for `G1[1:1]`, has 8.
    """
    return sum(PAPER_COLUMN_BYTES + 2 * PAPER_ENTRY_BYTES * len(rows) for _, rows in changes)


class HoldBack(Generic[Source, Item]):
    def __init__(self, missing: Callable[[Item], tuple[Source, int] | None], items_max: int = ITEMS_HELD_MAX) -> None:
        self._missing = missing
        self._items_max = items_max
        self._numbers = count()
        self._waiting: dict[Source, list[tuple[int, int, Item]]] = {}
        """By source, a heap of (the count that it waits for, its number, it)."""
        self._ready: list[tuple[int, Item]] = []
        """A heap of (number, item)."""
        self._held = 0

    def __len__(self) -> int:
        """Everything that was put and not taken."""
        return self._held + len(self._ready)

    def __iter__(self) -> Iterator[Item]:
        """In the order in which it was put."""
        waiting = [(number, item) for heap in self._waiting.values() for _, number, item in heap]
        return iter([item for _, item in sorted([*self._ready, *waiting], key=_by_number)])

    @property
    def has_room(self) -> bool:
        return len(self) < self._items_max

    def put(self, item: Item, is_forced: bool = False) -> bool:
        """Return False when the item must wait and there is no room, and nothing was kept: the stack drops it where it
        will come again, and otherwise ends the session with the peer that sent it, from which the peer begins anew.
        There is always room for what may be delivered at once: others may wait for it. `is_forced`: and for this."""
        if not is_forced and not self.has_room and self._missing(item) is not None:
            return False
        self._place(next(self._numbers), item)
        return True

    def take(self) -> Item | None:
        """The next that may be delivered. The stack delivers it, counts it, and says `reached`, before it takes
        another."""
        return heappop(self._ready)[1] if self._ready else None

    def reached(self, source: Source, at: int) -> None:
        """So many of this source are there now."""
        heap = self._waiting.get(source)
        if heap is None or heap[0][0] > at:
            return
        due: list[tuple[int, Item]] = []
        while heap and heap[0][0] <= at:
            _, number, item = heappop(heap)
            due.append((number, item))
        if not heap:
            del self._waiting[source]
        self._replace(due)

    def _replace(self, entries: list[tuple[int, Item]]) -> None:
        self._held -= len(entries)
        for number, item in entries:
            self._place(number, item)

    def _place(self, number: int, item: Item) -> None:
        need = self._missing(item)
        if need is None:
            heappush(self._ready, (number, item))
        else:
            source, at = need
            heappush(self._waiting.setdefault(source, []), (at, number, item))
            self._held += 1


def _by_number(entry: tuple[int, Item]) -> int:
    return entry[0]
