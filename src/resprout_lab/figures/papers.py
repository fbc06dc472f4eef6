"""What the papers' formulas give: closed forms of headers, memory and groups, for any number of nodes.

These are the formulas of the thesis on LoCaMu, "Localized Reliable Causal Multicast", with 4 bytes for a name or a
number, as it prints them or as its printed numbers require; each says which. Nothing here is measured, and nothing here
is a promise of the stacks: simulated headers are compared with these in the tests.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final

WORD: Final = 4
"""Bytes of a name or a number."""
PAIR: Final = 8
"""Bytes of a name with a number."""

# -- groups ------------------------------------------------------------------------------------------------------------

GROUPS: Final = 1_500
GROUP_EXPONENT: Final = -1.25


def group_sizes(nodes: int, groups: int = GROUPS) -> list[int]:
    """Members(g) = floor(N * g^-1.25 + 0.5). With 65,536 nodes that is 259,019 memberships; printed are 237,895."""
    return [math.floor(nodes * group**GROUP_EXPONENT + 0.5) for group in range(1, groups + 1)]


# -- worst headers -----------------------------------------------------------------------------------------------------


def cbcast_header(sizes: Iterable[int]) -> int:
    """Not compressed: a number for each member of each group. 4 KB for one group of 1,024."""
    return WORD * sum(sizes)


def barriers_header(nodes: int) -> int:
    """All nodes are targets, and each of them waits for a message of every node: 8 MB, and 8 KB, for 1,024."""
    return PAIR * nodes + PAIR * nodes * nodes


def locamu_header(faults: int, degree: int) -> int:
    """As printed, 540 for f = 1 and degree 3: a number for each pair within f + 1 hops of each other in a safe
    neighbourhood (102 of them among 22 nodes, 408 bytes), and 2f + 1 identifiers, each with a name and a number for
    everybody within f + 1 hops (10 of them, 44 bytes each). The thesis does not say what there is beyond the 408; this
    count comes to it. What the stack counts is below."""
    identifiers = (2 * faults + 1) * WORD * (1 + ball(faults + 1, degree))
    return WORD * close_pairs(2 * faults + 1, faults + 1, degree) + identifiers


def locamu_header_with_names(faults: int, degree: int) -> int:
    """As the stack counts it, 668 for f = 1 and degree 3: 4 bytes for each column and 8 for each entry of what a
    message can carry from i to its neighbour h. *S* are those within 2f + 1 hops of both: two trees of depth 2f, with i
    and h as their roots, in which everybody has degree - 1 children.

    - *Dependencies*: a column for everybody in S, and an entry for every ordered pair within f + 1 hops of each other
      in it, all of them changed since the last message, or said anew.
    - *Identifiers*: of each of the last 2f + 1 brokers on the path, i the last of them, a column, and an entry for
      everybody in S within f + 1 hops of it that lies ahead.

    At f = 1 and degree 3, S has 14 nodes and 62 pairs, 552 bytes; 13 identifiers of 3 nodes are 116 more. The printed
    540 are 4 * 11 + 8 * 62 as well: the same entries without identifiers, and three columns fewer. Over more hops than
    one S is smaller, so this is the worst."""
    children, depth = degree - 1, 2 * faults
    brokers: int = 2 * sum(children**level for level in range(depth + 1))
    pairs = sum(_near_pairs(faults, children, distance) for distance in range(1, faults + 2))
    dependencies = WORD * brokers + PAIR * 2 * pairs
    return dependencies + max(_identifier_bytes(faults, children, first) for first in range(depth + 1))


def _near_pairs(faults: int, children: int, distance: int) -> int:
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


def _identifier_bytes(faults: int, children: int, first: int) -> int:
    """Of a message that was published so many levels below i, or came from beyond if that is the lowest level."""
    return sum(
        WORD + PAIR * _targets(faults, children, level, level == first < 2 * faults) for level in range(first + 1)
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


def ball(hops: int, degree: int) -> int:
    """Nodes within so many hops, the one in the middle included, in a tree without end."""
    return 1 + sum(_around(level, degree) for level in range(1, hops + 1))


def _around(level: int, degree: int) -> int:
    """Nodes that many hops away."""
    return 1 if not level else degree * (degree - 1) ** (level - 1)


def close_pairs(hops: int, distance_max: int, degree: int) -> int:
    """Ordered pairs of different nodes among those within so many hops of one, that are no further than that from each
    other. Counted by the place where the ways of both to the middle meet."""
    return sum(
        _around(level, degree) * _pairs_meeting(hops - level, degree if not level else degree - 1, distance, degree)
        for level in range(hops + 1)
        for distance in range(1, distance_max + 1)
    )


def _pairs_meeting(levels: int, children: int, distance: int, degree: int) -> int:
    """Ordered pairs at this distance below, or one of them at, a node with so many children and levels below it."""
    return sum(_ways(left, distance - left, levels, children, degree) for left in range(distance + 1))


def _ways(left: int, right: int, levels: int, children: int, degree: int) -> int:
    if max(left, right) > levels:
        return 0
    if not left or not right:
        return children * _power(degree - 1, max(left, right) - 1)
    return children * (children - 1) * _power(degree - 1, left + right - 2)


def _power(base: int, exponent: int) -> int:
    return math.prod([base] * exponent)


# -- memory ------------------------------------------------------------------------------------------------------------


def cbcast_memory(sizes: Iterable[int]) -> int:
    """The clocks of all groups."""
    return WORD * sum(sizes)


def barriers_memory(nodes: int) -> int:
    """The matrix `Delivered`, and a set of up to N dependencies for each of N nodes."""
    return WORD * nodes * nodes + PAIR * nodes * nodes


def locamu_memory(faults: int, degree: int) -> int:
    """`Past` and the prefixes of `R`, each |V|^2 numbers over the safe neighbourhood: 1,936 bytes each for 22 nodes."""
    return 2 * WORD * ball(2 * faults + 1, degree) ** 2


def sizes_fourfold(first: int, last: int) -> Iterator[int]:
    """For the axis of a figure: each four times the one before."""
    while first <= last:
        yield first
        first *= 4
