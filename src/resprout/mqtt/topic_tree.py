"""Values by topic, found by topic filter: the opposite of `filters.FilterMap`, which finds filters by topic.

A tree with one level of the topic in each step. A filter visits only branches that it can match, so a search costs what
it finds, and one look for each `+` and level beside that.
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
        """Forget the value of a topic, and branches that lead to none; nothing if there is no value."""
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
        """The values of all topics that the filter matches. A wildcard in the first level leaves out topics that begin
        with `$`."""
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
        """Everything at these nodes and below."""
        todo = list(nodes)
        if is_first:
            todo = [below for name, below in self._root.below.items() if not name.startswith("$")]
        while todo:
            node = todo.pop()
            if node.value is not None:
                found.append(node.value)
            todo.extend(node.below.values())
