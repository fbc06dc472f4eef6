"""Finds among many predicates one that covers a new one, and those that a new one covers, with bounded patience.

Filters stand in a tree with one level per step, so that a search looks only at filters that may cover, and not at all
that there are. Conditions on one filter are compared one by one. Every search gives up after a fixed amount of work:
"nothing found" may mean "not found out", exactly as it may with `Predicate.covers`, and whoever asks must be right
without an answer. What is found does cover.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from resprout.core import limits
from resprout.filters.implication import implies
from resprout.filters.predicate import Condition, Predicate

Value = TypeVar("Value")

PATIENCE: Final = 256
"""Nodes of the tree that one search looks at in vain. Whatever it finds gives it more."""
PAIR_PATIENCE: Final = 32
"""What comparing two conditions in vain costs of it."""
FOUND_PATIENCE: Final = limits.TOPIC_LEVELS
"""What a find gives: the next may lie this deep."""
TEXT_MAX: Final = 1 << 14
"""What one search compares of conditions at all, where a pair counts with the product of the lengths of its texts."""

Shelf: TypeAlias = dict[Condition | None, Value]
"""Everything with one filter, by condition."""


_EMPTY: Final[dict[Any, Any]] = {}
"""Shared by all nodes where nothing stands, and never filled: most have one of the three."""


class _Node(Generic[Value]):
    __slots__ = ("below", "here", "rest")

    def __init__(self) -> None:
        self.below: dict[str, _Node[Value]] = _EMPTY
        """By level, `+` among them."""
        self.here: Shelf[Value] = _EMPTY
        """Of the filter that ends here."""
        self.rest: Shelf[Value] = _EMPTY
        """Of the filter that goes on with `#`."""


class Covers(Generic[Value]):
    """A value for each of many predicates."""

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()

    def add(self, predicate: Predicate, value: Value) -> None:
        node = self._root
        for level in predicate.filter.split("/"):
            if level == "#":
                if node.rest is _EMPTY:
                    node.rest = {}
                node.rest[predicate.where] = value
                return
            below = node.below.get(level)
            if below is None:
                if node.below is _EMPTY:
                    node.below = {}
                below = node.below[level] = _Node()
            node = below
        if node.here is _EMPTY:
            node.here = {}
        node.here[predicate.where] = value

    def remove(self, predicate: Predicate) -> None:
        """Forget a predicate that is here."""
        path: list[tuple[_Node[Value], str]] = []
        node = self._root
        for level in predicate.filter.split("/"):
            if level != "#":
                path.append((node, level))
                node = node.below[level]
        del (node.rest if predicate.filter.endswith("#") else node.here)[predicate.where]
        for above, level in reversed(path):
            node = above.below[level]
            if node.below or node.here or node.rest:
                break
            del above.below[level]

    def covering(self, predicate: Predicate) -> Value | None:
        """The value of a predicate that covers this one."""
        where = predicate.where
        patience = _Patience()
        doubtful: list[Shelf[Value]] = []
        for shelf in self._wider(levels_of(predicate.filter), patience):
            for condition in (None, where):
                if condition in shelf:
                    return shelf[condition]
            doubtful.append(shelf)
        return _implied(doubtful, where, patience) if where is not None else None

    def covered(self, predicate: Predicate, most: int, movable: Callable[[Value], bool]) -> list[Value]:
        """Up to so many movable values of predicates that this one, which is not here itself, covers."""
        patience = _Patience()
        found: list[Value] = []
        for shelf in self._narrower(levels_of(predicate.filter), patience):
            for value in _implying(shelf, predicate.where, patience):
                if len(found) == most or patience.left <= 0:
                    return found
                if movable(value):
                    found.append(value)
                    patience.left += FOUND_PATIENCE
                else:
                    patience.left -= PAIR_PATIENCE
        return found

    def _wider(self, given: list[str], patience: "_Patience") -> Iterator[Shelf[Value]]:
        """What stands at filters that cover the given one."""
        ahead = [(self._root, 0)]
        while ahead and patience.left > 0:
            patience.left -= 1
            node, place = ahead.pop()
            inside = place > 0 or not given[0].startswith("$")  # where wildcards may stand
            if node.rest and inside:
                yield node.rest
            if place == len(given):
                if node.here:
                    yield node.here
                continue
            level = given[place]
            if level == "#":  # it also matches its parent, which is too short for another level
                continue
            if inside and (below := node.below.get("+")) is not None:
                ahead.append((below, place + 1))
            if level != "+" and (below := node.below.get(level)) is not None:
                ahead.append((below, place + 1))

    def _narrower(self, given: list[str], patience: "_Patience") -> Iterator[Shelf[Value]]:
        """What stands at filters that the given one covers."""
        last = len(given) - 1
        open_ended = given[last] == "#"
        if given == ["+", "#"] and self._root.rest:
            yield self._root.rest
        ahead: list[Iterator[tuple[str, _Node[Value], int]]] = [iter([("", self._root, 0)])]
        while ahead and patience.left > 0:
            step = next(ahead[-1], None)
            if step is None:
                ahead.pop()
                continue
            patience.left -= 1
            name, node, place = step
            if place == 1 and given[0] == "+" and name.startswith("$"):
                continue
            if open_ended and place >= last:
                if node.here:
                    yield node.here
                if node.rest:
                    yield node.rest
                ahead.append(_steps(node.below.items(), place + 1))
            elif place > last:
                if node.here:
                    yield node.here
            elif given[place] == "+":
                ahead.append(_steps(node.below.items(), place + 1))
            elif (below := node.below.get(given[place])) is not None:
                ahead.append(_steps([(given[place], below)], place + 1))


def levels_of(topic_filter: str) -> list[str]:
    """With `#` alone written as `+/#`, which matches the same."""
    return ["+", "#"] if topic_filter == "#" else topic_filter.split("/")


class _Patience:
    """Of one search."""

    __slots__ = ("_text", "left")

    def __init__(self) -> None:
        self.left = PATIENCE
        self._text = TEXT_MAX

    def implies(self, narrow: Condition, wide: Condition) -> bool:
        price = len(narrow.text) * len(wide.text)
        if price <= self._text:
            self._text -= price
            if implies(narrow.node, wide.node):
                return True
        self.left -= PAIR_PATIENCE
        return False


def _implied(shelves: list[Shelf[Value]], where: Condition, patience: _Patience) -> Value | None:
    """Of a condition that this one implies. The latest are tried first, and what covers something counts as new, so
    that the few that cover much are not lost among the many that cover nothing."""
    for shelf in shelves:
        for condition in reversed(shelf):
            if patience.left <= 0:
                return None
            if condition is not None and patience.implies(where, condition):
                value = shelf[condition] = shelf.pop(condition)
                return value
    return None


def _implying(shelf: Shelf[Value], where: Condition | None, patience: _Patience) -> Iterator[Value]:
    """What on the shelf is covered by this condition on its filter or a wider one."""
    if where is None:
        yield from shelf.values()
        return
    if where in shelf:
        yield shelf[where]
    for condition in reversed(shelf):
        if patience.left <= 0:
            return
        if condition is not None and condition != where and patience.implies(condition, where):
            yield shelf[condition]


def _steps(children: Iterable[tuple[str, _Node[Value]]], place: int) -> Iterator[tuple[str, _Node[Value], int]]:
    for name, node in children:
        yield name, node, place
