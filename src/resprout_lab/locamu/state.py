"""What a broker must not forget when it dies: what it has processed, what others may lack, what its clients published.

It changes in one way only: a message is processed. RECEIVE of the thesis, corrected: a repeat is found before the
identifiers are added (L1), and a message depends on what was processed before it, not on itself (L2).
"""

from resprout.core.seen import Seen
from resprout_lab.blocks.item import KeptItem
from resprout_lab.blocks.retention import Retention
from resprout_lab.blocks.vector_clock import Changes
from resprout_lab.locamu.copies import SentMessage, SentSet
from resprout_lab.locamu.identifiers import CountedPath, each
from resprout_lab.locamu.near import SafeNeighbourhood
from resprout_lab.locamu.past import Past


class BrokerState:
    def __init__(self, near: SafeNeighbourhood, kept: Retention) -> None:
        self._near = near
        self.past = Past(near.name)
        self.copies = SentSet(near, kept)
        self.seen = Seen()
        """What clients of this broker have published. They come back to no other one, so it is theirs alone."""

    def process(
        self, item: KeptItem, branch: str | None, path: CountedPath, dependencies: Changes,
        numbers: dict[str, int] | None = None,
    ) -> tuple[SentMessage, CountedPath | None]:  # fmt: skip
        """The message as it is kept; and of a repeat, the entries of the path that other copies had empty. `numbers`:
        those that it was given before, in an earlier life."""
        past, near = self.past, self._near
        past.depend_on(dependencies, near)
        if past.knows_any(path):
            past.add(each(path))
            copy = self.copies.find(path)
            if copy is not None:
                return copy, self.copies.merge(copy, path)
            copy = SentMessage(item, branch, path)  # all had it, but for the numbers that this one brings
            self.copies.put(copy)
            return copy, path
        depends, toward = dict(past.depends), dict(past.toward)
        past.add(each(path))
        if numbers is None:
            numbers = past.number(near.targets(branch))
        past.sent(numbers, [one for one in near.own.neighbours if one != branch])
        if branch is None:
            self.seen.raise_to(item.bundle.origin, item.bundle.last)
        copy = SentMessage(item, branch, path, numbers, depends, toward)
        self.copies.put(copy)
        return copy, None
