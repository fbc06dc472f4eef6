"""Trie from topics to values, searched by topic filter: the inverse of `filters.FilterMap`, which finds filters by
topic.

A search visits only branches that can match. It may visit far more nodes than it finds values: `walk` does it step by
step.
"""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

Value = TypeVar("Value")

_ALL: Final = -1
"""In place of a number of levels: the filter matches this node and all nodes below it."""


class _Node(Generic[Value]):
    __slots__ = ("below", "value")

    def __init__(self) -> None:
        self.below: dict[str, _Node[Value]] = {}
        self.value: Value | None = None

    @property
    def is_empty(self) -> bool:
        return self.value is None and not self.below


class TopicTree(Generic[Value]):
    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()

    def put(self, topic: str, value: Value) -> None:
        node = self._root
        for level in topic.split("/"):
            below = node.below.get(level)
            if below is None:
                below = node.below[level] = _Node()
            node = below
        node.value = value

    def remove(self, topic: str) -> None:
        """Remove the value of a topic and prune empty branches. Does nothing if there is no value."""
        levels = topic.split("/")
        path = [self._root]
        for level in levels:
            below = path[-1].below.get(level)
            if below is None:
                return
            path.append(below)
        path[-1].value = None
        while len(path) > 1 and path[-1].is_empty:
            path.pop()
            del path[-1].below[levels[len(path) - 1]]

    def walk(self, topic_filter: str) -> Iterator[Value | None]:
        """Visit the topics that match the filter: yield the value, or None, of each visited node. The tree may change
        between two steps; topics that are new since then may be missing. A wildcard in the first level does not match
        topics that begin with `$`."""
        levels = topic_filter.split("/")
        stack: list[Iterator[tuple[_Node[Value], int]]] = [iter(((self._root, 0),))]
        while stack:
            visited = next(stack[-1], None)
            if visited is None:
                stack.pop()
                continue
            node, place = visited
            is_match = place in (_ALL, len(levels)) or (place > 0 and levels[place] == "#")
            yield node.value if is_match else None
            if place < len(levels) and node.below:
                stack.append(_below(node, place, "#" if place == _ALL else levels[place]))

    def match(self, topic_filter: str) -> list[Value]:
        """Return the values of all topics that match the filter."""
        return [value for value in self.walk(topic_filter) if value is not None]


def _below(node: _Node[Value], place: int, level: str) -> Iterator[tuple[_Node[Value], int]]:
    """Return the nodes below a node that match the level, each with the number of levels that match up to it."""
    after = _ALL if level == "#" else place + 1
    if level not in ("#", "+"):
        found = node.below.get(level)
        return iter(()) if found is None else iter(((found, after),))
    if place:
        nodes = list(node.below.values())
    else:
        nodes = [below for name, below in node.below.items() if not name.startswith("$")]
    return ((below, after) for below in nodes)
