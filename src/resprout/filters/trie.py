"""A mapping from topic filters to values that finds all filters that match a topic.

Plain filters are looked up whole. The others stand in a tree with one level of the filter per step; a topic visits the
child of its own level and the child of `+`, so never more nodes than there are, and usually a handful.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from resprout.filters.topics import is_plain

Value = TypeVar("Value")


class _Node(Generic[Value]):
    __slots__ = ("below", "here", "rest")

    def __init__(self) -> None:
        self.below: dict[str, _Node[Value]] = {}
        """By level, `+` among them."""
        self.here: Value | None = None
        """Of the filter that ends here."""
        self.rest: Value | None = None
        """Of the filter that goes on with `#`."""

    @property
    def empty(self) -> bool:
        return not self.below and self.here is None and self.rest is None


class FilterMap(Generic[Value]):
    """`make` gives the value of a filter that is new."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._plain: dict[str, Value] = {}
        self._root: _Node[Value] = _Node()

    def find(self, topic_filter: str) -> Value | None:
        if is_plain(topic_filter):
            return self._plain.get(topic_filter)
        *path, last = topic_filter.split("/")
        node: _Node[Value] | None = self._root
        for level in path if last == "#" else [*path, last]:
            node = node.below.get(level) if node is not None else None
        if node is None:
            return None
        return node.rest if last == "#" else node.here

    def insert(self, topic_filter: str) -> Value:
        """The new value of a filter that is not here yet."""
        value = self._make()
        if is_plain(topic_filter):
            self._plain[topic_filter] = value
            return value
        node = self._root
        for level in topic_filter.split("/"):
            if level == "#":
                node.rest = value
                return value
            node = node.below.setdefault(level, _Node())
        node.here = value
        return value

    def delete(self, topic_filter: str) -> None:
        """Forget a filter that is here."""
        if is_plain(topic_filter):
            del self._plain[topic_filter]
            return
        node = self._root
        path: list[tuple[_Node[Value], str]] = []
        for level in topic_filter.split("/"):
            if level != "#":
                path.append((node, level))
                node = node.below[level]
        if topic_filter.endswith("#"):
            node.rest = None
        else:
            node.here = None
        for above, level in reversed(path):
            if not above.below[level].empty:
                break
            del above.below[level]

    def matching(self, topic: str) -> list[Value]:
        """The values of all filters that match."""
        plain = self._plain.get(topic)
        found: list[Value | None] = [plain]
        if self._root.empty:
            return [plain] if plain is not None else []
        standing = [self._root]
        wild = not topic.startswith("$")
        for level in topic.split("/"):
            reached: list[_Node[Value]] = []
            for node in standing:
                if (child := node.below.get(level)) is not None:
                    reached.append(child)
                if wild:
                    found.append(node.rest)
                    if (child := node.below.get("+")) is not None:
                        reached.append(child)
            if not reached:
                break
            standing = reached
            wild = True
        else:
            for node in standing:
                found.append(node.here)
                found.append(node.rest)
        return [value for value in found if value is not None]
