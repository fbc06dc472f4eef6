"""The shape of a network: trees and flat networks that are described instead of listed, and the links that are cut.

`[topology]` of a scenario and swarms use it. Brokers are `b0` (the root), `b1`, ... in breadth-first order, clients
`c0`, `c1`, ... dealt to them in turn. A degree counts neighbours: a broker of degree 3 has a parent and two children.
The root has no parent and still only `degree - 1` children, so that 511 brokers of degree 3 are the complete binary
tree.

In a `flat` network no broker has a parent: each broker but the first knows some that were there before it, and the
stack makes of that what it wants.

`Cuts` keeps track of cut links and partitions while a scenario runs.
"""

import random
from collections.abc import Iterable
from typing import Final

from resprout.core.errors import UsageError

SHAPES: Final = ("tree", "chain", "star", "random")
FLAT: Final = "flat"
KINDS: Final = (*SHAPES, FLAT)
DEGREE: Final = 3

Pair = tuple[str, str]


def parents_in(shape: str, brokers: int, degree: int, rng: random.Random) -> list[int | None]:
    """Each broker's parent, by number, in breadth-first order. `rng` matters only to `random`.

    `tree` fills each level before the next; `chain` and `star` have no use for a degree; `random` grows by giving a
    parent with room, drawn evenly, to one broker after the other.
    """
    if shape == "tree":
        return [None, *((i - 1) // (degree - 1) for i in range(1, brokers))]
    if shape == "chain":
        return [None, *range(brokers - 1)]
    if shape == "star":
        return [None, *(0 for _ in range(1, brokers))]
    if shape == "random":
        return _breadth_first(_random_parents(brokers, degree, rng))
    raise UsageError(f"unknown tree {shape!r}; it is one of {', '.join(SHAPES)}")


def contacts_in(brokers: int, contacts: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Of each broker of a flat network, by number: so many of those before it (or all, where there are fewer), drawn
    evenly. Whoever follows them gets from everybody to the first."""
    return [tuple(rng.sample(range(i), min(i, contacts))) for i in range(brokers)]


def _random_parents(brokers: int, degree: int, rng: random.Random) -> list[int | None]:
    parents: list[int | None] = [None]
    open_to_more = [0]
    children = [0] * brokers
    for broker in range(1, brokers):
        place = rng.randrange(len(open_to_more))
        parent = open_to_more[place]
        parents.append(parent)
        children[parent] += 1
        if children[parent] == degree - 1:  # full: the last of the list takes its place
            open_to_more[place] = open_to_more[-1]
            open_to_more.pop()
        open_to_more.append(broker)
    return parents


def _breadth_first(parents: list[int | None]) -> list[int | None]:
    """The same tree with its brokers numbered level by level."""
    below: list[list[int]] = [[] for _ in parents]
    for broker, parent in enumerate(parents):
        if parent is not None:
            below[parent].append(broker)
    renumbered: list[int | None] = [None]
    order = [0]
    for number, broker in enumerate(order):  # grows while it is walked
        renumbered += [number] * len(below[broker])
        order += below[broker]
    return renumbered


class Cuts:
    def __init__(self) -> None:
        self._links: set[Pair] = set()
        self._partitions: list[tuple[frozenset[str], set[Pair]]] = []
        """One side of each, and the links across it that were healed since."""

    def cut(self, one: str, other: str) -> None:
        self._links.add(_pair(one, other))

    def partition(self, side: Iterable[str]) -> None:
        """Separate these nodes from everybody else, those that join later included."""
        self._partitions.append((frozenset(side), set()))

    def heal(self, one: str, other: str) -> None:
        """This link passes again, whatever had cut it."""
        pair = _pair(one, other)
        self._links.discard(pair)
        for _, healed in self._partitions:
            healed.add(pair)

    def heal_all(self) -> None:
        self._links.clear()
        self._partitions.clear()

    def between(self, one: str, other: str) -> bool:
        """Whether nothing passes between these two."""
        if not self._links and not self._partitions:
            return False
        pair = _pair(one, other)
        return pair in self._links or any(
            (one in side) != (other in side) and pair not in healed for side, healed in self._partitions
        )


def _pair(one: str, other: str) -> Pair:
    return (one, other) if one <= other else (other, one)
