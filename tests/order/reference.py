"""What the log must say, computed from scratch out of everything that ever happened to an entry.

The log keeps counters that are raised and lowered; this keeps the facts and counts them when asked.
"""

import dataclasses


@dataclasses.dataclass
class Neighbour:
    """One neighbour that an entry goes to."""

    behind: bool
    """It must catch up before it gets the entry."""
    levels: int = 0
    """It has reported levels 0 .. levels - 1."""
    done: bool = False
    """It and everyone behind it have the entry."""
    released: bool = False
    """It turned out not to want the entry."""


@dataclasses.dataclass
class Facts:
    """Everything that has happened to one entry."""

    cost: int
    hops: int
    source: str | None
    neighbours: list[Neighbour]
    readers: int
    source_levels: int = 0
    """The source has reported levels 1 .. source_levels of it."""
    shown: bool = False
    taken: int = 0
    """Readers that have it."""

    def level(self, faults: int) -> int:
        """The least level that somebody concerned has not reported."""
        level = 0
        while level <= faults and self._all_reported(level):
            level += 1
        return level

    def _all_reported(self, level: int) -> bool:
        neighbours = all(n.released or n.levels > level for n in self.neighbours)
        return neighbours and (self.source is None or level <= self.source_levels)

    def safe(self, faults: int) -> bool:
        copies = 1 + self.hops + sum(n.levels > 0 for n in self.neighbours)
        return self.hops >= faults or copies > faults or self.level(faults) >= faults

    def dropped(self, faults: int) -> bool:
        return self.shown and self.taken == self.readers and self.level(faults) > faults

    @property
    def undone(self) -> int:
        return sum(not n.done and not n.released for n in self.neighbours) + self.readers - self.taken

    @property
    def waits(self) -> int:
        return sum(n.behind for n in self.neighbours) + (self.readers - self.taken if self.shown else 0)


class Reference:
    def __init__(self, faults: int) -> None:
        self.faults = faults
        self.entries: list[Facts] = []

    def bytes_held(self) -> int:
        return sum(e.cost for e in self.entries if not e.dropped(self.faults))

    def local_bytes(self) -> int:
        """Of local clients: what is not yet both delivered everywhere and stable here."""
        return sum(e.cost for e in self.entries if e.source is None and not (e.undone == 0 and e.dropped(self.faults)))

    def held_bytes(self, source: str) -> int:
        return sum(e.cost for e in self.entries if e.source == source and e.waits)

    def first_unshown(self) -> int | None:
        return next((no for no, e in enumerate(self.entries) if not e.shown), None)
