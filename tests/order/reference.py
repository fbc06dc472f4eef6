"""What the log must say, computed from scratch out of everything that ever happened to its entries and links.

The log keeps counters that are raised and lowered; this keeps the facts and counts them when asked.
"""

import dataclasses


@dataclasses.dataclass
class Crossing:
    """An entry on a link: to be sent there, sent, or come from there."""

    link: "LinkFacts"
    sent: bool
    """To the link; otherwise it came from there."""
    number: int = 0
    """Its place among those that were sent or came; 0 while the link has to catch up with it."""
    over: bool = False
    """The link was replaced when nothing was left to be said about the entry: all that it had to report stands."""

    def has_reach(self, reach: int) -> bool:
        if self.over:
            return True
        if self.sent:
            return 0 < self.number <= self.link.have[reach]
        return reach == 0 or self.number <= self.link.back_have[reach - 1]

    def has_level(self, level: int) -> bool:
        """From 1 on: level 0 is that it has the entry."""
        if self.over:
            return True
        rungs = self.link.firm if self.sent else self.link.back_firm
        return self.number in rungs[level - 1]

    @property
    def is_done(self) -> bool:
        return self.over or not self.sent or self.number in self.link.done


class LinkFacts:
    """What the neighbour at the other end has reported, as in `Levels`; and what crossed."""

    def __init__(self, faults: int) -> None:
        reaches = max(1, faults)
        self.have = [0] * reaches
        self.firm: list[set[int]] = [set() for _ in range(faults)]
        self.back_have = [0] * (reaches - 1)
        self.back_firm: list[set[int]] = [set() for _ in range(faults)]
        self.done: set[int] = set()
        self.sent: list[Facts] = []
        self.arrived: list[Facts] = []
        self.told: list[set[int]] = []
        """What it was told, field by field, as the numbers that it was told of."""
        self.pending: list[Facts] = []
        """What it has to catch up with, in log order."""

    def tell(self, faults: int) -> list[set[int]]:
        """What this side may report by now, field by field, and what it has reported before: whether others have it in
        order, whether it is taken one by one."""
        reaches, levels = range(max(1, faults)), range(1, faults + 1)
        in_order = [
            *[[facts.reach >= reach for facts in self.arrived] for reach in reaches],
            *[[facts.reach >= reach for facts in self.sent] for reach in reaches if reach],
        ]
        one_by_one = [
            *[[facts.level >= level for facts in self.arrived] for level in levels],
            *[[facts.level >= level for facts in self.sent] for level in levels],
            [facts.undone == 0 for facts in self.arrived],
        ]
        before = self.told or [set() for _ in (*in_order, *one_by_one)]
        now = [set(range(1, _count(column, len(told)) + 1)) for column, told in zip(in_order, before, strict=False)]
        now += [{number for number, holds in enumerate(column, 1) if holds} for column in one_by_one]
        self.told = [told | more for told, more in zip(before, now, strict=True)]
        return self.told


@dataclasses.dataclass
class Facts:
    """Everything that has happened to one entry."""

    cost: int
    hops: int
    source: str | None
    crossings: list[Crossing]
    readers: int
    faults: int
    shown: bool = False
    taken: int = 0
    """Readers that have it."""
    reach: int = 0
    level: int = 0
    dropped: bool = False

    def rise(self) -> None:
        """As far as everybody concerned has reported. What was reached stays reached when a link is replaced."""
        while self.reach < self.faults and all(crossing.has_reach(self.reach) for crossing in self.crossings):
            self.reach += 1
        while self.level <= self.faults and self._all_at(self.level):
            self.level += 1
        self.dropped = self.dropped or self.level > self.faults

    def _all_at(self, level: int) -> bool:
        if level:
            return all(crossing.has_level(level) for crossing in self.crossings)
        return self.pins == 0 and all(crossing.has_reach(0) for crossing in self.crossings)

    @property
    def pins(self) -> int:
        return (not self.shown) + self.readers - self.taken

    @property
    def copies(self) -> int:
        return 1 + self.hops + sum(crossing.sent and crossing.has_reach(0) for crossing in self.crossings)

    @property
    def safe(self) -> bool:
        return self.hops >= self.faults or self.copies > self.faults or self.reach >= self.faults

    @property
    def undone(self) -> int:
        return sum(not crossing.is_done for crossing in self.crossings) + self.readers - self.taken

    @property
    def waits(self) -> int:
        return sum(crossing.sent and crossing.number == 0 for crossing in self.crossings if not crossing.over)


class Reference:
    def __init__(self, faults: int) -> None:
        self.faults = faults
        self.entries: list[Facts] = []

    def bytes_held(self) -> int:
        return sum(e.cost for e in self.entries if not e.dropped)

    def local_bytes(self) -> int:
        """Of local clients: what is not shown yet, or waits for a link."""
        return sum(e.cost for e in self.entries if e.source is None and (e.waits or not e.shown))

    def held_bytes(self, source: str) -> int:
        return sum(e.cost for e in self.entries if e.source == source and e.waits)

    def first_held_back(self) -> int | None:
        return next((no for no, e in enumerate(self.entries) if not e.shown), None)


def _count(holds: list[bool], start: int) -> int:
    """From `start` to the first that does not hold."""
    return holds.index(False, start) if False in holds[start:] else len(holds)
