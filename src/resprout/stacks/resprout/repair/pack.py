"""Parcels on their way out: much of one kind in parts of bounded size."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeVar

from resprout.core.marks import Mark
from resprout.filters.predicate import Predicate
from resprout.order.totals.messages import LastTotals
from resprout.overlay.places import Life
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import (
    PART_ITEMS,
    AskedInterest,
    Asks,
    ClientLives,
    Listeners,
    SeenMarks,
    Served,
    ServedAsks,
    Surroundings,
)

T = TypeVar("T")


def pack_marks(marks: Iterable[Mark]) -> list[SeenMarks]:
    return [SeenMarks(some) for some in _in_parts(marks)]


def pack_last_totals(marks: Iterable[Mark]) -> list[LastTotals]:
    return [LastTotals(some) for some in _in_parts(marks)]


def pack_asks(asks: Sequence[tuple[int, Predicate, bool]], confirmed: bool = False) -> list[Asks]:
    """`confirmed`: all of them are, whatever is said of each."""
    return [
        Asks(tuple([AskedInterest(id, p.filter, p.where_text, confirmed or sure) for id, p, sure in some]))
        for some in _in_parts(asks)
    ]


def pack_served(predicates: Iterable[Predicate]) -> list[ServedAsks]:
    return [ServedAsks(tuple([Served(p.filter, p.where_text) for p in some])) for some in _in_parts(predicates)]


def pack_surroundings(core: Core) -> list[Surroundings]:
    places = core.view.places.values()
    tombstones = [Life(name, number) for name, number in core.view.tombstones.items()]
    return [
        *[Surroundings(some, ()) for some in _in_parts(places)],
        *[Surroundings((), dead) for dead in _in_parts(tombstones)],
    ]


def pack_listeners(broker: str, names: Iterable[str]) -> list[Listeners]:
    """At least one part: that there are none is worth knowing."""
    return [Listeners(broker, some) for some in _in_parts(names) or [()]]


def pack_client_lives(lives: Iterable[Life]) -> list[ClientLives]:
    return [ClientLives(some) for some in _in_parts(lives)]


def _in_parts(things: Iterable[T]) -> list[tuple[T, ...]]:
    left, parts = iter(things), []
    while some := tuple(islice(left, PART_ITEMS)):
        parts.append(some)
    return parts
