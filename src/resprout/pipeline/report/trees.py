"""The tree of a run before and after each repair, as pictures.

No row of a trace holds the whole tree. It is derived: from the tree of the scenario, from the notes of brokers that
joined, and from the rule of the default stack, by which the coordinator of a repair becomes the parent of every living
child of the dead. Runs of other stacks have no such pictures.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from resprout.pipeline.report.facts import Happening
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.measures import NONE
from resprout.pipeline.results import RepairRow

PICTURES_MAX: Final = 8
BROKERS_MAX: Final = 60
STEP: Final = 52
DEPTH: Final = 62
MARGIN: Final = 26

Parents = dict[str, str | None]
"""The parent of each broker, None for the root."""


class DrawnBroker(msgspec.Struct, frozen=True):
    name: str
    x: float
    y: float
    is_dead: bool
    leads: bool


class DrawnLink(msgspec.Struct, frozen=True):
    x1: float
    y1: float
    x2: float
    y2: float
    look: str
    """`lost`, `new`, or empty."""


class DrawnTree(msgspec.Struct, frozen=True):
    width: float
    height: float
    brokers: tuple[DrawnBroker, ...]
    links: tuple[DrawnLink, ...]
    label: str
    """The tree in words."""


class RepairPicture(msgspec.Struct, frozen=True):
    title: str
    before: DrawnTree
    after: DrawnTree | None
    """None when the repair did not end."""


class RepairStep(msgspec.Struct, frozen=True):
    """The tree when a repair began, and when it had ended; the same tree when it did not end."""

    repair: RepairRow
    before: Parents
    after: Parents


def repair_pictures(
    parents: Mapping[str, str | None], joins: Sequence[Happening], repairs: Sequence[RepairRow]
) -> tuple[RepairPicture, ...]:
    """Return a picture for each of the first repairs. `parents` is the tree of the scenario."""
    if not parents or len(parents) > BROKERS_MAX:
        return ()
    steps, _ = follow_tree(parents, joins, repairs)
    return tuple(map(_picture, steps[:PICTURES_MAX]))


def follow_tree(
    parents: Mapping[str, str | None], joins: Sequence[Happening], repairs: Sequence[RepairRow]
) -> tuple[list[RepairStep], Parents]:
    """Return each repair with the tree around it, and the tree at the end of the run."""
    moments: list[tuple[int, int, Happening | RepairRow]] = [(one.time_us, 1, one) for one in joins]
    for repair in repairs:
        moments.append((repair.began_us, 0, repair))
        moments.append((repair.began_us if repair.ended_us is None else repair.ended_us, 2, repair))
    tree, befores, steps = dict(parents), dict[int, Parents](), list[RepairStep]()
    for _, kind, one in sorted(moments, key=lambda moment: moment[:2]):
        if isinstance(one, Happening):
            tree[one.node] = one.detail
        elif kind == 0:
            befores[id(one)] = dict(tree)
        elif any(name in befores[id(one)] for name in one.dead):
            if one.ended_us is not None:
                tree = repaired(tree, one.dead, one.node)
            steps.append(RepairStep(one, befores[id(one)], tree))
    return sorted(steps, key=lambda step: step.repair.began_us), tree


def repaired(tree: Parents, dead: Sequence[str], coordinator: str) -> Parents:
    """Return the tree after a repair: living children of the dead are below the coordinator."""
    gone = set(dead)
    above = tree.get(coordinator)
    while above is not None and above in gone:
        above = tree.get(above)
    after: Parents = {}
    for name, parent in tree.items():
        if name not in gone:
            after[name] = above if name == coordinator else coordinator if parent in gone else parent
    return after


def _picture(step: RepairStep) -> RepairPicture:
    repair, before = step.repair, step.before
    dead, is_over = frozenset(repair.dead), repair.ended_us is not None
    took = f"{repair.duration_us / 1e3:,.1f} ms" if repair.duration_us is not None else NONE
    how = f"{repair.node} repairs it in {took}" if is_over else "the repair does not end"
    return RepairPicture(
        title=f"{' and '.join(repair.dead)} at {repair.began_us / 1e6:,.3f} s: {how}",
        before=_drawn(before, dead, "", {}),
        after=_drawn(step.after, frozenset(), repair.node, before) if is_over else None,
    )


def _drawn(tree: Parents, dead: frozenset[str], leader: str, before: Parents) -> DrawnTree:
    places = _places(tree)
    links = [
        DrawnLink(*places[parent], *places[name], _look(name, parent, dead, before))
        for name, parent in tree.items()
        if parent in places
    ]
    brokers = [DrawnBroker(name, x, y, name in dead, name == leader) for name, (x, y) in places.items()]
    words = [
        f"{name}{' (dead)' if name in dead else ''}{f' below {parent}' if parent else ' is the root'}"
        for name, parent in tree.items()
    ]
    return DrawnTree(
        width=max(x for x, _ in places.values()) + MARGIN,
        height=max(y for _, y in places.values()) + MARGIN,
        brokers=tuple(brokers),
        links=tuple(links),
        label="; ".join(words),
    )


def _look(name: str, parent: str | None, dead: frozenset[str], before: Parents) -> str:
    if name in dead or parent in dead:
        return "lost"
    return "new" if name in before and before[name] != parent else ""


def _places(tree: Parents) -> dict[str, tuple[float, float]]:
    """Return where each broker is drawn: leaves side by side, parents above the middle of their children."""
    children: dict[str | None, list[str]] = {}
    for name in in_order(tree):
        parent = tree[name]
        children.setdefault(parent if parent in tree else None, []).append(name)
    places: dict[str, tuple[float, float]] = {}
    leaves = 0

    def place(name: str, depth: int) -> float:
        nonlocal leaves
        below = [place(child, depth + 1) for child in children.get(name, ())]
        if not below:
            leaves += 1
        x = (below[0] + below[-1]) / 2 if below else MARGIN + (leaves - 1) * STEP
        places[name] = (x, MARGIN + depth * DEPTH)
        return x

    for top in children.get(None, ()):
        place(top, 0)
    return places
