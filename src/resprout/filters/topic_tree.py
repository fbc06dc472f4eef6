"""Trie from topics to values, searched by topic filter: the inverse of `filters.FilterMap`, which finds filters by
topic.

A search visits only branches that can match. Its cost is proportional to the number of results, plus one lookup per
visited node for each level of the filter.
"""

from typing import Generic, TypeVar

Value = TypeVar("Value")


class _Node(Generic[Value]):
    __slots__ = ("below", "value")

    def __init__(self) -> None:
        self.below: dict[str, _Node[Value]] = {}
        self.value: Value | None = None


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
        while len(path) > 1 and path[-1].value is None and not path[-1].below:
            path.pop()
            del path[-1].below[levels[len(path) - 1]]

    def match(self, topic_filter: str) -> list[Value]:
        """Return the values of all topics that match the filter. A wildcard in the first level does not match topics
        that begin with `$`."""
        found: list[Value] = []
        levels = topic_filter.split("/")
        nodes = [self._root]
        for place, level in enumerate(levels):
            if level == "#":
                self._collect(nodes, is_first=place == 0, found=found)
                return found
            if level == "+":
                nodes = [
                    below for node in nodes for name, below in node.below.items() if place or not name.startswith("$")
                ]
            else:
                nodes = [node.below[level] for node in nodes if level in node.below]
        found += [node.value for node in nodes if node.value is not None]
        return found

    def _collect(self, nodes: list[_Node[Value]], is_first: bool, found: list[Value]) -> None:
        """Append the values of these nodes and of all nodes below them."""
        todo = list(nodes)
        if is_first:
            todo = [below for name, below in self._root.below.items() if not name.startswith("$")]
        while todo:
            node = todo.pop()
            if node.value is not None:
                found.append(node.value)
            todo.extend(node.below.values())
