"""Vector clocks of many groups, of which a message carries only what has changed.

A clock counts per *column* and *row*. For CBCAST (Birman, Schiper and Stephenson, 1991) a column is a group and a row a
member: how many messages of that member to that group are known. In the headers of LoCaMu a column is
a sender and a row a target within the safe neighbourhood. They travel and are counted alike; its matrix keeps what it
was for every message, and is its own (`stacks.locamu.past`).

Every change has a version, so "what has changed" is a question to one number, at the cost of the answer (`since`). The
number says since *when*, and it is the stack that keeps it:

- *the sender's last message to the same group* (CBCAST). The changes then are the same for all receivers, whatever way
  the message takes and whoever passes it on. The receiver needs no more than it has: it delivers messages of one sender
  to one group in order, and what is left out was needed by the one before. Whoever joins a group gets `since(0)`.
- *the last message on the same session*, where both ends know what was sent, because links are FIFO. A new session, and
  what is sent again over another one, begins with `since(0)`.

A row that counts nothing is not kept and not sent. Merging is taking the maximum, so it does not matter in which order,
or how often, changes are merged; whether a message may be delivered is asked before it (`missing`).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Final

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
        """An entry of these that is not reached here, as `order.holdback` wants it; None when the message that carries
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
