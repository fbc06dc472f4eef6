"""The largest header that a broker of LoCaMu can send in a given tree, counted pair by pair: what the closed form
(`pipeline.papers.locamu_header_with_names`) is compared with."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

COLUMN: Final = 4
ENTRY: Final = 8

Tree = Mapping[str, Sequence[str]]
"""The neighbours of everybody."""


def worst_header_in(tree: Tree, faults: int) -> int:
    """The largest header that any broker of this tree can send."""
    return max((worst_header_over(tree, faults, one, to) for one in tree for to in tree[one]), default=0)


def worst_header_over(tree: Tree, faults: int, one: str, to: str) -> int:
    """Of those that this one can send to that neighbour."""
    near = {name: _within(tree, name, 2 * faults + 1) for name in _within(tree, one, 2 * faults + 1)}
    known = [name for name in near[one] if name in near[to]]
    pairs = sum(1 for a in known for b in known if a != b and near[a].get(b, 99) <= faults + 1)
    identifiers = max(_along(tree, near, frozenset(known), faults, path) for path in _paths(tree, to, one, faults))
    return COLUMN * len(known) + ENTRY * pairs + identifiers


def _paths(tree: Tree, to: str, one: str, faults: int) -> Iterator[list[str]]:
    """All ways back from the receiver, over the sender, as far as the numbers of those on them travel."""
    longer = [[to, one]]
    while longer:
        path = longer.pop()
        yield path
        if len(path) <= 2 * faults + 1:
            longer += [[*path, name] for name in tree[path[-1]] if name != path[-2]]


def _along(
    tree: Tree, near: Mapping[str, Mapping[str, int]], known: frozenset[str], faults: int, path: list[str]
) -> int:
    """If it was published where the path ends; one that came from beyond, when nobody there could be told of it."""
    size = 0
    for place in range(1, len(path)):
        name, behind = path[place], path[place + 1] if place + 1 < len(path) else None
        ahead = [other for other, hops in near[name].items() if 0 < hops <= faults + 1 and other in known]
        size += COLUMN + ENTRY * sum(1 for other in ahead if behind is None or not _through(tree, name, behind, other))
    return size


def _through(tree: Tree, name: str, behind: str, other: str) -> bool:
    """The way from one to the other leads over that neighbour."""
    seen, level = {name, behind}, [behind]
    while level:
        if other in level:
            return True
        level = [one for before in level for one in tree[before] if one not in seen]
        seen.update(level)
    return False


def _within(tree: Tree, name: str, hops: int) -> dict[str, int]:
    found, level = {name: 0}, [name]
    for distance in range(1, hops + 1):
        level = [other for one in level for other in tree[one] if other not in found]
        found.update(dict.fromkeys(level, distance))
    return found
