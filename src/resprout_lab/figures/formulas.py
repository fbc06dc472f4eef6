"""Closed forms of the documents, as functions and as figures: headers, memory, groups, and shares of a ring.

The formulas for headers, memory and groups are those of the thesis on LoCaMu, "Localized Reliable Causal Multicast",
with 4 bytes for a name or a number, as it prints them or as its printed numbers require; each says which.
`closed_forms` draws them.

`ring_shares` computes how evenly keys are spread over the members of a Chord ring, where a key belongs to the first
member at or behind it.

Nothing here is measured, and nothing is a promise of the stacks: tests compare simulated headers and rings with these
numbers.
"""

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from resprout.pipeline.report.figures import WHOLE, Cell, CellPlace, Figure, FigureAxis, Grid, Shape, in_order
from resprout_lab.scribe.ring_numbers import number_of

WORD: Final = 4
"""Bytes of a name or a number."""
PAIR: Final = 8
"""Bytes of a name with a number."""

# -- groups ------------------------------------------------------------------------------------------------------------

GROUPS: Final = 1_500
GROUP_EXPONENT: Final = -1.25

NODES_MOST: Final = 65_536
ORDERING_BYTES_MOST: Final = 16
"""Of the default stack: what is checked wherever it runs."""
WITH_NAMES: Final = "locamu, with names"
"""What the stack counts: the thesis' formula for compressed headers, when everything in one has changed."""

TOPICS: Final = tuple(f"t{number}" for number in range(30))
SIZES: Final = (10, 20, 30)
RINGS: Final = 1_000


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


def _computed(title: str, value: str, x: FigureAxis, labels: list[int], forms: dict[str, Callable[[int], int]]) -> Grid:
    figure = Figure(
        title=title, measure="largest_header", value=value, x=x, shape=Shape.LINES,
        note="Computed by closed forms, not measured.",
    )  # fmt: skip
    cells: dict[CellPlace, Cell] = {}
    for series, form in forms.items():
        for label in labels:
            number = float(form(label))
            cells[WHOLE, WHOLE, str(label), series] = Cell(number, number, number, 0)
    return Grid(figure, (WHOLE,), (WHOLE,), in_order(map(str, labels)), in_order(forms), cells)


def closed_forms() -> tuple[Grid, ...]:
    """Up to 65,536 nodes in 1,500 groups; f = 1 and degree 3 where they are not varied."""
    nodes = [*sizes_fourfold(16, NODES_MOST)]
    fixed: dict[str, Callable[[int], int]] = {
        "cbcast": lambda _: cbcast_header(group_sizes(NODES_MOST)),
        "causal-barriers": lambda _: barriers_header(NODES_MOST),
        "resprout": lambda _: ORDERING_BYTES_MOST,
    }
    return (
        _computed(
            "Worst headers by nodes", "worst header", FigureAxis("nodes", "nodes"), nodes,
            {
                "locamu": lambda _: locamu_header(1, 3),
                WITH_NAMES: lambda _: locamu_header_with_names(1, 3),
                "cbcast": lambda count: cbcast_header(group_sizes(count)),
                "causal-barriers": barriers_header,
                "resprout": lambda _: ORDERING_BYTES_MOST,
            },
        ),
        _computed(
            "Memory of a node by nodes", "memory", FigureAxis("nodes", "nodes"), nodes,
            {
                "locamu": lambda _: locamu_memory(1, 3),
                "cbcast": lambda count: cbcast_memory(group_sizes(count)),
                "causal-barriers": barriers_memory,
            },
        ),
        _computed(
            "Worst headers by f", "worst header", FigureAxis("f", "faults tolerated"), [1, 2, 3],
            {
                "locamu": lambda f: locamu_header(f, 3),
                WITH_NAMES: lambda f: locamu_header_with_names(f, 3),
                **fixed,
            },
        ),
        _computed(
            "Worst headers by degree", "worst header", FigureAxis("degree", "degree"), [3, 5, 9, 17],
            {
                "locamu": lambda degree: locamu_header(1, degree),
                WITH_NAMES: lambda degree: locamu_header_with_names(1, degree),
                **fixed,
            },
        ),
    )  # fmt: skip


class RingShares(NamedTuple):
    """Keys of one member."""

    expected: float
    least: float
    most: float


def owners_of(members: Sequence[str], keys: Sequence[str]) -> Iterator[str]:
    """Of each key; members are known by where they listen, or by their names where that is enough."""
    ring = sorted((number_of(member), member) for member in members)
    numbers = [number for number, _ in ring]
    for key in keys:
        yield ring[bisect.bisect_left(numbers, number_of(key)) % len(ring)][1]


def ring_shares(members: Sequence[str], keys: Sequence[str]) -> RingShares:
    owned = dict.fromkeys(members, 0)
    for owner in owners_of(members, keys):
        owned[owner] += 1
    return RingShares(len(keys) / len(members), min(owned.values()), max(owned.values()))


def mean_shares(members: int, keys: Sequence[str], rings: int) -> RingShares:
    """Over so many rings, whose members listen elsewhere in each."""
    found = [ring_shares([f"10.0.{ring}.{n}:7000" for n in range(members)], keys) for ring in range(rings)]
    return RingShares(*(fmean(column) for column in zip(*found, strict=True)))


def topics_owned() -> tuple[Grid, ...]:
    figure = Figure(
        title="Topics of a node",
        measure="broker_loads",
        value="topics that a node owns",
        x=FigureAxis("nodes", "nodes"),
        panels=FigureAxis("ring", "ring"),
        series=FigureAxis("share", "share"),
        shape=Shape.LINES,
        note=f"30 topics. Computed by the rule of Chord, for the nodes of these runs and for {RINGS:,} rings.",
    )
    cells: dict[CellPlace, Cell] = {}
    for nodes in SIZES:
        rings: dict[str, RingShares] = {
            "of these runs": ring_shares([f"b{number}" for number in range(nodes)], TOPICS),
            f"mean of {RINGS:,}": mean_shares(nodes, TOPICS, RINGS),
        }
        for ring, shares in rings.items():
            for name, number in shares._asdict().items():
                cells[WHOLE, ring, str(nodes), name] = Cell(number, number, number, 0)
    panels, xs, series = (in_order(place[axis] for place in cells) for axis in (1, 2, 3))
    return (Grid(figure, (WHOLE,), panels, xs, series, cells),)
