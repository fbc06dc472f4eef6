"""A tree as a graph that is searched by force, and the places that its brokers would publish."""

from collections.abc import Iterable
from random import Random

from resprout.overlay.messages import Place


class Graph:
    def __init__(self, names: Iterable[str]) -> None:
        self.links: dict[str, list[str]] = {name: [] for name in names}
        self.versions: dict[str, int] = dict.fromkeys(self.links, 2)

    @classmethod
    def drawn(cls, rng: Random, size: int) -> "Graph":
        graph = cls(f"n{number}" for number in range(size))
        wide = rng.random() < 0.5
        for place, name in enumerate(graph.names[1:], 1):
            graph.link(name, rng.choice(graph.names[0 if wide else max(0, place - 2) : place]))
        return graph

    @property
    def names(self) -> list[str]:
        return list(self.links)

    def add(self, name: str) -> None:
        self.links[name] = []
        self.versions[name] = self.versions.get(name, 0) + 2

    def remove(self, name: str) -> None:
        del self.links[name]

    def link(self, one: str, other: str) -> None:
        self.links[one].append(other)
        self.links[other].append(one)
        self._changed(one, other)

    def unlink(self, one: str, other: str) -> None:
        self.links[one].remove(other)
        self.links[other].remove(one)
        self._changed(one, other)

    def _changed(self, *names: str) -> None:
        for name in names:
            self.versions[name] += 1

    def place(self, name: str) -> Place:
        return Place(name, 1, self.versions[name], None, tuple(self.links[name]), f"at {name}")

    def path(self, one: str, other: str) -> tuple[str, ...]:
        """The only one without a turn back, found by trying all."""
        open_paths: list[tuple[str, ...]] = [(one,)]
        while open_paths:
            path = open_paths.pop()
            if path[-1] == other:
                return path
            open_paths += [(*path, name) for name in self.links[path[-1]] if name not in path]
        return ()

    def within(self, name: str, hops: int) -> dict[str, int]:
        paths = {other: self.path(name, other) for other in self.links}
        return {other: len(path) - 1 for other, path in paths.items() if path and len(path) - 1 <= hops}
