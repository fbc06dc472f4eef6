"""The *sent* set of the thesis: what was processed here, for as long as somebody in reach may not have it.

A message is kept until everybody within f + 1 hops for whom somebody has numbered it, this broker or one before it on
the path, is known to have processed it (section 3.9.1). So whatever a dead broker had numbered is still with whoever
got it from there, and is sent in its place.
"""

from collections.abc import Callable, Collection, Iterator

from resprout.edge.broker.item import KeptItem
from resprout.stacks.locamu.identifiers import Path, each
from resprout.stacks.locamu.past import Pair


class SentMessage:
    """A message at this broker."""

    __slots__ = ("branch", "depends", "had_by", "item", "lacking", "no", "numbers", "path", "toward")

    def __init__(
        self, no: int, item: KeptItem, branch: str | None, path: Path, numbers: dict[str, int],
        depends: dict[Pair, int], toward: dict[str, dict[str, int]],
    ) -> None:  # fmt: skip
        self.no = no
        self.item = item
        self.branch = branch
        """Where it came from; None: it was published here."""
        self.path = path
        """As it came, with what other copies have added."""
        self.numbers = numbers
        """Of this broker, by target."""
        self.depends = depends
        """*P* when it was processed: everything before it, and nothing of itself."""
        self.toward = toward
        """The same of this broker's own numbers, by branch."""
        self.lacking: set[Pair] = set()
        """(who numbered it, for whom): not known to be there."""
        self.had_by: dict[str, None] = {name: None for name, numbers in path.items() if numbers}
        """Other brokers that have processed it."""


class SentSet:
    def __init__(self, name: str, keep: Callable[[KeptItem], None], let_go: Callable[[KeptItem], None]) -> None:
        """`keep`, `let_go`: somebody may lack it, and nobody does."""
        self._name = name
        self._keep = keep
        self._forget = let_go
        self._by_identifier: dict[tuple[str, str, int], SentMessage] = {}
        self._all: dict[int, SentMessage] = {}
        self._last_no = 0
        self.counts: dict[Pair, int] = {}
        """How many messages of each to each are known to be processed."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[SentMessage]:
        """In the order in which they were processed."""
        return iter(list(self._all.values()))

    def put(
        self, item: KeptItem, branch: str | None, path: Path, numbers: dict[str, int], depends: dict[Pair, int],
        toward: dict[str, dict[str, int]], reach: Collection[str],
    ) -> SentMessage:  # fmt: skip
        self._last_no += 1
        copy = self._all[self._last_no] = SentMessage(self._last_no, item, branch, path, numbers, depends, toward)
        self._keep(item)
        self._index(copy, path, reach)
        self._index(copy, {self._name: numbers}, reach)
        self._let_go(copy)
        return copy

    def find(self, path: Path) -> SentMessage | None:
        """Another copy of it that is kept."""
        return next((copy for one in each(path) if (copy := self._by_identifier.get(one)) is not None), None)

    def merge(self, copy: SentMessage, path: Path, reach: Collection[str]) -> Path:
        """Fill empty entries with what another copy brought. Returns what is new."""
        news = {name: numbers for name, numbers in path.items() if numbers and not copy.path.get(name)}
        copy.path.update(news)
        copy.had_by.update(dict.fromkeys(news))
        self._index(copy, news, reach)
        self._let_go(copy)
        return news

    def numbered(self, target: str, number: int) -> SentMessage | None:
        """The message of this broker to that one with this number, unless all have it."""
        return self._by_identifier.get((self._name, target, number))

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

    def _index(self, copy: SentMessage, path: Path, reach: Collection[str]) -> None:
        for sender, target, number in each(path):
            self._by_identifier[sender, target, number] = copy
            if target in reach:
                if number > self.counts.get((sender, target), 0):
                    copy.lacking.add((sender, target))
                else:
                    copy.had_by[target] = None

    def _let_go(self, copy: SentMessage) -> None:
        if not copy.lacking and self._all.pop(copy.no, None) is not None:
            self._forget(copy.item)
            for one in (*each(copy.path), *each({self._name: copy.numbers})):
                if self._by_identifier.get(one) is copy:
                    del self._by_identifier[one]
