"""The safe neighbourhood of one broker: the tree within 2f + 1 hops, and what the algorithm asks of it.

Those within f + 1 hops are the *reach*: the broker may talk to each of them, and gives every message a number for each
of them that lies ahead. A *branch* is the direction in which somebody lies, by the name of the neighbour there.
"""

from collections.abc import Iterable

import msgspec

from resprout.overlay.neighbourhood import Bypass, IsDead, Neighbourhood
from resprout.overlay.places import Place


class SafeNeighbourhood:
    def __init__(self, own: Place, faults: int) -> None:
        self.name = own.name
        self.faults = faults
        self.place = own
        self._view = Neighbourhood(own, 2 * faults + 1)
        self._forget()

    def _forget(self) -> None:
        """What was worked out from the tree as it was."""
        self.reach = self._view.nodes(self.faults + 1)
        """Everybody within f + 1 hops, nearest first, and how far away."""
        self._nodes = dict.fromkeys((self.name, *self._view.nodes()))
        self._branches = {name: self._view.path(name)[1] for name in self._view.nodes()}
        self._near_to: dict[tuple[int, str, str], bool] = {}
        self._targets: dict[str | None, tuple[str, ...]] = {}
        self._shared: dict[str, frozenset[str]] = {}
        self._ways: dict[str, tuple[str, ...]] = {}

    # -- the tree ------------------------------------------------------------------------------------------------------

    def learn(self, places: Iterable[Place]) -> list[Place]:
        news = self._view.learn(places)
        if news:
            self._forget()
        return news

    def stand_next_to(self, names: Iterable[str]) -> list[Place]:
        """This broker has these neighbours, too."""
        neighbours = tuple(dict.fromkeys((*self.place.neighbours, *names)))
        self.place = msgspec.structs.replace(self.place, version=self.place.version + 1, neighbours=neighbours)
        news = self._view.move(self.place)
        self._forget()
        return news

    def concerning(self, neighbour: str, news: Iterable[Place]) -> tuple[Place, ...]:
        return self._view.concerning(neighbour, news)

    def everything_for(self, neighbour: str) -> tuple[Place, ...]:
        return self._view.everything_for(neighbour)

    def place_of(self, name: str) -> Place | None:
        return self._view.place(name)

    def bypass(self, is_dead: IsDead) -> Bypass:
        """The active connections: on the path to everybody in reach, the first that lives."""
        return self._view.bypass(is_dead, self.faults + 1)

    # -- what the algorithm asks ---------------------------------------------------------------------------------------

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    @property
    def nodes(self) -> tuple[str, ...]:
        """Everybody in view, nearest first, this broker before them."""
        return tuple(self._nodes)

    def branch(self, name: str) -> str:
        """The neighbour in whose direction it lies."""
        return self._branches[name]

    def between(self, name: str) -> tuple[str, ...]:
        """Those on the path to it, both ends left out."""
        return self._view.path(name)[1:-1]

    def way_from(self, name: str) -> tuple[str, ...]:
        """The path from there to here, this broker left out; empty when it is not in view."""
        if name not in self._ways:
            self._ways[name] = tuple(reversed(self._view.path(name)[1:]))
        return self._ways[name]

    def path_between(self, one: str, other: str) -> tuple[str, ...]:
        """Both included; empty when one of them is not in view."""
        return self._view.path_between(one, other)

    def is_within(self, hops: int, one: str, other: str) -> bool:
        key = (hops, one, other)
        if (known := self._near_to.get(key)) is None:
            known = self._near_to[key] = 0 < len(self._view.path_between(one, other)) <= hops + 1
        return known

    def targets(self, source: str | None) -> tuple[str, ...]:
        """Everybody in reach that lies ahead of a message from this branch; None: it was published here."""
        if source not in self._targets:
            self._targets[source] = tuple([name for name in self.reach if self.branch(name) != source])
        return self._targets[source]

    def shared(self, name: str) -> frozenset[str]:
        """Those in the safe neighbourhood of both: the other one is told of nobody else."""
        if name not in self._shared:
            hops = 2 * self.faults + 1
            self._shared[name] = frozenset(one for one in self._nodes if self.is_within(hops, name, one))
        return self._shared[name]
