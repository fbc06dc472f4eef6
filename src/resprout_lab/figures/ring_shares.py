"""How evenly keys are dealt to the members of a ring, by the rule that Chord has: a key belongs to the first member at
or behind it. Nothing here is measured; a test asks a ring."""

import bisect
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from resprout.pipeline.report.figures import WHOLE, Cell, CellPlace, Figure, FigureAxis, Grid, Shape, in_order
from resprout_lab.scribe.chord.ring import number_of

TOPICS: Final = tuple(f"t{number}" for number in range(30))
SIZES: Final = (10, 20, 30)
RINGS: Final = 1_000


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
