"""How large a header can become, by the thesis' formula: 4 bytes for each column, 8 for each entry.

What is counted, for a message from i to its neighbour h. *S* are those within 2f + 1 hops of both.

- *Dependencies*: an entry for every ordered pair within f + 1 hops of each other in S, all of them changed since the
  last message, or all of them said anew; a column for everybody in S.
- *Identifiers*: of each of the last 2f + 1 brokers on the path, i the last of them, a column, and an entry for
  everybody in S within f + 1 hops of it that lies ahead.

None of it depends on the size of the network. At f = 1 and degree 3, S has 14 brokers and 62 pairs: 4 * 14 + 8 * 62 =
552 bytes, and with 13 identifiers of 3 brokers 4 * 3 + 8 * 13 = 116 bytes: 668. The thesis prints 540 and does not say
what that is. 540 is 4 * 11 + 8 * 62: the same 62 entries without identifiers, and three columns fewer; it is also
4 * 102 + 132, where 102 are the pairs within f + 1 hops among the 22 brokers of a whole safe neighbourhood, at 4 bytes
without names, and 132 would be identifiers. Over more hops than one S is smaller, so this is the worst.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

COLUMN: Final = 4
ENTRY: Final = 8

Tree = Mapping[str, Sequence[str]]
"""The neighbours of everybody."""


def worst_header(faults: int, degree: int) -> int:
    """In a tree without end in which all have this many neighbours. S then is two trees of depth 2f, with i and h as
    their roots, in which everybody has degree - 1 children."""
    children, depth = degree - 1, 2 * faults
    brokers: int = 2 * sum(children**level for level in range(depth + 1))
    pairs = sum(_pairs(faults, children, distance) for distance in range(1, faults + 2))
    dependencies = COLUMN * brokers + ENTRY * 2 * pairs
    return dependencies + max(_identifiers(faults, children, first) for first in range(depth + 1))


def _pairs(faults: int, children: int, distance: int) -> int:
    """Pairs in S that are so far from each other."""
    depth = 2 * faults
    across: int = distance * children ** (distance - 1)  # some levels below i, and the others below h
    below = 0
    for short in range(distance // 2 + 1):  # two arms below a common ancestor; the shorter one may be nothing
        long = distance - short
        ways = children**long if not short else children * (children - 1) * children ** (distance - 2)
        ways = ways // 2 if short == long else ways
        below += sum(children**level for level in range(depth - long + 1)) * ways
    return across + 2 * below


def _identifiers(faults: int, children: int, first: int) -> int:
    """Of a message that was published so many levels below i, or came from beyond if that is the lowest level."""
    return sum(
        COLUMN + ENTRY * _targets(faults, children, level, level == first < 2 * faults) for level in range(first + 1)
    )


def _targets(faults: int, children: int, level: int, is_publisher: bool) -> int:
    """In S, within f + 1 hops of a broker at this level below i, and ahead of the message."""
    reach, depth = faults + 1, 2 * faults
    count = (children - (not is_publisher)) * _subtree(children, min(reach, depth - level))
    for up in range(1, min(level, reach) + 1):
        count += 1 + (children - 1) * _subtree(children, min(reach - up, depth - level + up))
    if level + 1 <= reach:
        count += 1 + children * _subtree(children, min(reach - level - 1, depth))
    return count


def _subtree(children: int, levels: int) -> int:
    """Everybody below one broker, this one included, with so many levels."""
    return sum(children**level for level in range(levels))


# -- in a given tree ---------------------------------------------------------------------------------------------------


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
