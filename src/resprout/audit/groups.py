"""Deliveries by (topic, key), for the checks that hold per key."""

from resprout.audit.history import History
from resprout.core.guarantee import Guarantee
from resprout.core.keys import Pair

ByLife = dict[int, list[int]]
"""For each subscriber, the publications it delivered, by position."""


def by_pair(history: History) -> dict[Pair, ByLife]:
    """Only keys that some total names, since the others have no barrier; `eventual` publications have no place. Totals
    of one topic that name no key stand under an empty one."""
    publications = history.publications
    closed = {pair for p in publications if p.guarantee is Guarantee.TOTAL for pair in p.lines}
    kept = [tuple(pair for pair in p.lines if pair in closed) if p.ordered else () for p in publications]
    groups: dict[Pair, ByLife] = {}
    for life in history.lives:
        for number in life.sequence:
            for pair in kept[number]:
                groups.setdefault(pair, {}).setdefault(life.number, []).append(number)
    return dict(sorted(groups.items()))


def totals_of(history: History, group: ByLife) -> ByLife:
    publications = history.publications
    return {
        life: [number for number in numbers if publications[number].guarantee is Guarantee.TOTAL]
        for life, numbers in group.items()
    }
