"""The safe neighbourhood of one broker: the tree within 2f + 1 hops, and what the algorithm asks of it.

Those within f + 1 hops are the *reach*: the broker may talk to each of them, and gives every message a number for each
of them that lies ahead. A *branch* is the direction in which somebody lies, by the name of the neighbour there.
"""

from resprout.overlay.places import Place
from resprout_lab.blocks.neighbourhood import Neighbourhood


class SafeNeighbourhood(Neighbourhood):
    def __init__(self, own: Place, faults: int) -> None:
        self.faults = faults
        super().__init__(own, 2 * faults + 1)

    def _look(self, changed: set[str]) -> list[Place]:
        news = super()._look(changed)
        self.reach = self.nodes(self.faults + 1)
        """Everybody within f + 1 hops, nearest first, and how far away."""
        self._near_to: dict[tuple[int, str, str], bool] = {}
        self._targets: dict[str | None, tuple[str, ...]] = {}
        self._shared: dict[str, frozenset[str]] = {}
        self._ways: dict[str, tuple[str, ...]] = {}
        return news

    def way_from(self, name: str) -> tuple[str, ...]:
        """The path from there to here, this broker left out; empty when it is not in view."""
        if name not in self._ways:
            self._ways[name] = tuple(reversed(self.path(name)[1:]))
        return self._ways[name]

    def is_within(self, hops: int, one: str, other: str) -> bool:
        key = (hops, one, other)
        if (known := self._near_to.get(key)) is None:
            known = self._near_to[key] = 0 < len(self.path_between(one, other)) <= hops + 1
        return known

    def targets(self, source: str | None) -> tuple[str, ...]:
        """Everybody in reach that lies ahead of a message from this branch; None: it was published here."""
        if source not in self._targets:
            self._targets[source] = tuple([name for name in self.reach if self.branch(name) != source])
        return self._targets[source]

    def shared(self, name: str) -> frozenset[str]:
        """Those in the safe neighbourhood of both: the other one is told of nobody else."""
        if name not in self._shared:
            known = (self.name, *self.nodes())
            self._shared[name] = frozenset(one for one in known if self.is_within(self.hops, name, one))
        return self._shared[name]
