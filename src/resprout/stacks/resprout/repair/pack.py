"""Parcels on their way out: much of one kind in parts of bounded size."""

from collections.abc import Iterable, Iterator, Sequence
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


def pack_marks(marks: Iterable[Mark]) -> Iterator[SeenMarks]:
    for some in _in_parts(marks):
        yield SeenMarks(some)


def pack_last_totals(marks: Iterable[Mark]) -> Iterator[LastTotals]:
    for some in _in_parts(marks):
        yield LastTotals(some)


def pack_asks(asks: Sequence[tuple[int, Predicate, bool]], confirmed: bool = False) -> Iterator[Asks]:
    """`confirmed`: all of them are, whatever is said of each."""
    for some in _in_parts(asks):
        yield Asks(tuple([AskedInterest(id, p.filter, p.where_text, confirmed or sure) for id, p, sure in some]))


def pack_served(predicates: Iterable[Predicate]) -> Iterator[ServedAsks]:
    for some in _in_parts(predicates):
        yield ServedAsks(tuple([Served(predicate.filter, predicate.where_text) for predicate in some]))


def pack_surroundings(core: Core) -> Iterator[Surroundings]:
    places = core.view.places.values()
    tombstones = [Life(name, number) for name, number in core.view.tombstones.items()]
    for some in _in_parts(places):
        yield Surroundings(some, ())
    for dead in _in_parts(tombstones):
        yield Surroundings((), dead)


def pack_listeners(broker: str, names: Iterable[str]) -> Iterator[Listeners]:
    """At least one part: that there are none is worth knowing."""
    parts = list(_in_parts(names)) or [()]
    for some in parts:
        yield Listeners(broker, some)


def pack_client_lives(lives: Iterable[Life]) -> Iterator[ClientLives]:
    for some in _in_parts(lives):
        yield ClientLives(some)


def _in_parts(things: Iterable[T]) -> Iterator[tuple[T, ...]]:
    left = iter(things)
    while some := tuple(islice(left, PART_ITEMS)):
        yield some
