"""The one log of a broker: what it accepted, in the order it accepted it.

Entries are *shown* to local readers in log order, each only when it is safe: known to be at f + 1 brokers (or at every
broker of a smaller tree), so that nothing a subscriber has seen can vanish. An entry leaves the log when it is stable,
shown and taken by its local readers. The log never evicts; it pushes back, in two ways that must not be mixed:

- A neighbour is held back for what waits *downstream* of it: for links that have fallen behind and for local readers.
  In a tree, and never back to where it came from, such waiting cannot go in a circle.
- Local publishers are held back for all they have published that is not yet delivered everywhere and stable here.

Copies that are kept only because some other broker may still need them from us count for the second, at their origin,
and never for the first: two brokers that each refuse to take more until the other has taken more would wait for ever.
"""

from collections import deque
from typing import Any

from resprout.core.bundle import Bundle
from resprout.order.entry import Entry
from resprout.order.link import Link


class Log:
    """Entries by their place. Who wants what is decided elsewhere; this keeps the counts that decide when."""

    __slots__ = ("_faults", "bytes_held", "entries", "local_bytes", "next_no", "unshown")

    def __init__(self, faults_tolerated: int) -> None:
        self._faults = faults_tolerated
        self.entries: dict[int, Entry] = {}
        self.next_no = 0
        self.unshown: deque[Entry] = deque()
        self.bytes_held = 0
        self.local_bytes = 0
        """What local clients published that is not yet delivered everywhere and stable here."""

    def append(
        self,
        bundle: Bundle,
        source: Link | None,
        client: Any,
        hops: int,
        awaited: int,
        behind: int,
        readers: tuple[Any, ...],
    ) -> Entry:
        """A new entry that goes to so many neighbours, `behind` of which must catch up first, and to these readers."""
        entry = Entry(self.next_no, bundle, source, client, hops)
        self.next_no += 1
        faults = self._faults
        entry.undone = awaited + len(readers)
        entry.readers = readers
        entry.pins = 1 + len(readers)
        self.bytes_held += entry.cost
        self.entries[entry.no] = entry
        self.unshown.append(entry)
        if source is None:
            entry.lacking = [awaited] * (faults + 1)
            self.local_bytes += entry.cost
        else:
            # The source has it, which is level 0; it will report the higher ones.
            entry.lacking = [awaited] + [awaited + 1] * faults
            source.arrived.add(entry)
        if behind:
            self.wait(entry, behind)
        if awaited == 0:
            self._rise(entry)
        return entry

    def raise_level(self, entry: Entry, level: int) -> bool:
        """A neighbour reported `level` for the entry. True when the entry's own level rose."""
        entry.lacking[level] -= 1
        return entry.lacking[level] == 0 and entry.level == level and self._rise(entry)

    def release(self, entry: Entry) -> bool:
        """A neighbour that was awaited does not want the entry after all. True when its level rose."""
        lacking = entry.lacking
        for level in range(len(lacking)):
            lacking[level] -= 1
        self.deliver_one(entry)
        return self._rise(entry)

    def _rise(self, entry: Entry) -> bool:
        before = entry.level
        lacking = entry.lacking
        while entry.level <= self._faults and lacking[entry.level] == 0:
            entry.level += 1
        if entry.level > self._faults and entry.pins == 0:
            self._drop(entry)
        return entry.level > before

    def is_safe(self, entry: Entry) -> bool:
        """At f + 1 brokers for certain, or at every broker of a smaller tree (then its level is at least f: everything
        within f hops has it, and that is all there is)."""
        faults = self._faults
        return entry.hops >= faults or entry.copies > faults or entry.level >= faults

    def show(self, entry: Entry) -> None:
        """From now on its readers have it, or it waits for them."""
        entry.shown = True
        if entry.readers:
            self.wait(entry, len(entry.readers))
        self._unpin(entry)

    def took(self, entry: Entry) -> bool:
        """A reader has it, or is gone. True when nobody is owed it any more."""
        self.waited(entry)
        self._unpin(entry)
        return self.deliver_one(entry)

    def deliver_one(self, entry: Entry) -> bool:
        """One that awaited it has it, with everything behind. True when it was the last."""
        entry.undone -= 1
        if entry.undone:
            return False
        if entry.source is None and entry.bundle is None:
            self.local_bytes -= entry.cost
        return True

    def wait(self, entry: Entry, count: int) -> None:
        """So many more downstream must take it before its source may be relieved of it."""
        if entry.source is not None and entry.waits == 0:
            entry.source.held_bytes += entry.cost
        entry.waits += count

    def waited(self, entry: Entry) -> None:
        entry.waits -= 1
        if entry.source is not None and entry.waits == 0:
            entry.source.held_bytes -= entry.cost

    def _unpin(self, entry: Entry) -> None:
        entry.pins -= 1
        if entry.pins == 0 and entry.level > self._faults:
            self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        if entry.bundle is None:
            return
        entry.bundle = None
        del self.entries[entry.no]
        self.bytes_held -= entry.cost
        if entry.source is None and entry.undone == 0:
            self.local_bytes -= entry.cost
