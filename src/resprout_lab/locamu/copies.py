"""The *sent* set of the thesis: what was processed here, for as long as somebody in reach may not have it.

A message is kept until everybody within f + 1 hops for whom somebody has numbered it, this broker or one before it on
the path, is known to have processed it (section 3.9.1). So whatever a dead broker had numbered is still with whoever
got it from there, and is sent in its place.
"""

from collections.abc import Iterator

import msgspec

from resprout_lab.blocks.retention import KeptItem, Retention
from resprout_lab.locamu.past import CountedPair, CountedPath, each
from resprout_lab.locamu.tree import SafeNeighbourhood


class SentMessage(msgspec.Struct, eq=False):
    """A message at this broker."""

    item: KeptItem
    branch: str | None
    """Where it came from; None: it was published here."""
    path: CountedPath
    """As it came, with what other copies have added."""
    numbers: dict[str, int] = {}
    """Of this broker, by target."""
    depends: dict[CountedPair, int] = {}
    """*P* when it was processed: everything before it, and nothing of itself."""
    toward: dict[str, dict[str, int]] = {}
    """The same of this broker's own numbers, by branch."""
    no: int = 0
    lacking: set[CountedPair] = set()
    """(who numbered it, for whom): not known to be there."""
    had_by: dict[str, None] = {}
    """Other brokers that have processed it."""


class SentSet:
    def __init__(self, near: SafeNeighbourhood, kept: Retention) -> None:
        self._near = near
        self._kept = kept
        self._by_identifier: dict[tuple[str, str, int], SentMessage] = {}
        self._all: dict[int, SentMessage] = {}
        self._last_no = 0
        self.counts: dict[CountedPair, int] = {}
        """How many messages of each to each are known to be processed."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[SentMessage]:
        """In the order in which they were processed."""
        return iter(list(self._all.values()))

    def put(self, copy: SentMessage) -> None:
        self._last_no += 1
        copy.no = self._last_no
        self._all[copy.no] = copy
        self._kept.keep(copy.item)
        self._index(copy, copy.path)
        self._index(copy, {self._near.name: copy.numbers})
        self._let_go(copy)

    def find(self, path: CountedPath) -> SentMessage | None:
        """Another copy of it that is kept."""
        return next((copy for one in each(path) if (copy := self._by_identifier.get(one)) is not None), None)

    def merge(self, copy: SentMessage, path: CountedPath) -> CountedPath:
        """Add the identifiers that another copy brought, and return what is new. An entry may be known in part: a node
        that sends in the place of another one does not know all of its targets."""
        longer = max(copy.path, path, key=len)  # both end next to this broker: the oldest stays first
        known = {name: copy.path.get(name, {}) for name in longer}
        news: CountedPath = {}
        for name, numbers in path.items():
            if new := {target: number for target, number in numbers.items() if target not in known[name]}:
                news[name] = new
        copy.path = {name: known[name] | news.get(name, {}) for name in longer}
        self._index(copy, news)
        self._let_go(copy)
        return news

    def numbered(self, target: str, number: int) -> SentMessage | None:
        """The message of this broker to that one with this number, unless all have it."""
        return self._by_identifier.get((self._near.name, target, number))

    def lacking_behind(self, neighbour: str) -> list[SentMessage]:
        """What this neighbour has, and somebody behind it may not have by the numbers of this broker."""
        near = self._near
        behind = [name for name in near.reach if name != neighbour and neighbour in near.path(name)]
        return [
            copy
            for copy in self._all.values()
            if (near.name, neighbour) not in copy.lacking and any((near.name, one) in copy.lacking for one in behind)
        ]

    def lacking(self, target: str) -> list[SentMessage]:
        """What this one may not have, of what others have numbered for it."""
        return [copy for copy in self._all.values() if any(one[1] == target for one in copy.lacking)]

    def processed(self, sender: str, target: str, count: int) -> bool:
        """So many of the messages of one to the other are there. False: that is no news."""
        known = self.counts.get((sender, target), 0)
        if count <= known:
            return False
        self.counts[sender, target] = count
        for number in range(known + 1, count + 1):
            copy = self._by_identifier.get((sender, target, number))
            if copy is not None:
                copy.lacking.discard((sender, target))
                copy.had_by[target] = None
                self._let_go(copy)
        return True

    def _index(self, copy: SentMessage, path: CountedPath) -> None:
        for sender, target, number in each(path):
            self._by_identifier[sender, target, number] = copy
            if sender != self._near.name:
                copy.had_by[sender] = None
            if target in self._near.reach:
                if number > self.counts.get((sender, target), 0):
                    copy.lacking.add((sender, target))
                else:
                    copy.had_by[target] = None

    def _let_go(self, copy: SentMessage) -> None:
        if not copy.lacking and self._all.pop(copy.no, None) is not None:
            self._kept.let_go(copy.item)
            for one in (*each(copy.path), *each({self._near.name: copy.numbers})):
                if self._by_identifier.get(one) is copy:
                    del self._by_identifier[one]
