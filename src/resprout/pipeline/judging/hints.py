"""What all subscribers must know of each other before each can be judged alone.

Gathered from any portion of the deliveries, and joined: what correct subscribers were given, which order of totals the
run claims, and what each publication depends on.
"""

import msgspec
import numpy as np

from resprout.pipeline.judging.bank import AppliedRows
from resprout.pipeline.judging.columns import NEVER, NULL, Array, distinct, is_same
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.deliveries import Deliveries


class GatheredHints(msgspec.Struct):
    """From one portion of the deliveries."""

    heard: Array
    """Publications that correct subscribers were given."""
    claims: Array
    """(total, the place in the order that the run claims for it)."""
    elsewhere: Array
    """(ordered publication, row of a sound delivery to another client)."""
    links: Array | None
    """(publication, one that its client was given before it), both ordered; of each life only the latest, which implies
    the others. None: not looked for."""
    applied: int
    """Operations that replicas say to have executed."""
    has_unfounded: bool
    """Whether one of them was no operation."""

    def compact(self) -> "GatheredHints":
        """The same without repetition, to be sent."""
        lowest = int(self.claims[1].min(initial=0))
        number, above = distinct(self.claims[0], self.claims[1] - lowest)
        order = np.lexsort(self.elsewhere[::-1])
        first = np.append(True, ~is_same(self.elsewhere[0][order]))[: len(order)]
        return msgspec.structs.replace(
            self,
            heard=distinct(self.heard)[0].astype(np.int32),
            links=self.links.astype(np.int32) if self.links is not None else None,
            claims=np.stack((number, above + lowest)),
            elsewhere=self.elsewhere[:, order[first]],
        )


def gather(context: Context, deliveries: Deliveries, applied: AppliedRows, with_links: bool) -> GatheredHints:
    """`deliveries`: by life."""
    sound = _sound(context, deliveries)
    numbers, lives, tseq = deliveries.number[sound], deliveries.life[sound], deliveries.tseq[sound]
    claiming = np.flatnonzero((tseq != NULL) & context.publications.total[numbers])
    foreign = context.lives.node[lives] != context.publications.publisher[numbers]
    foreign = np.flatnonzero(foreign & context.publications.ordered[numbers])
    return GatheredHints(
        heard=numbers[context.lives.correct[lives]],
        claims=np.stack((numbers[claiming], tseq[claiming])),
        elsewhere=np.stack((numbers[foreign], deliveries.row[sound[foreign]])),
        links=find_links(context, deliveries) if with_links else None,
        applied=applied.count,
        has_unfounded=applied.has_unfounded,
    )


class Hints:
    def __init__(self, context: Context) -> None:
        count = len(context.publications)
        self._publications = context.publications
        self._contradicted = np.zeros(count, dtype=np.bool_)
        self._links: list[Array] = []
        self.applied = 0
        self.has_unfounded = False
        self.heard_by_correct = np.zeros(count, dtype=np.bool_)
        self.claim = np.full(count, NULL, dtype=np.int64)
        """By publication, the order that the run claims; NULL for none, and where subscribers were told different
        ones."""
        self.ready = np.full(count, NEVER, dtype=np.int64)
        """By publication, the row from which on it can be in the past of other clients' publications."""
        self.claims_any = False
        """Whether the run claims any order of totals."""
        self.breaks_places = False
        """Whether a total has several places, or a place several totals."""
        self.links: Array | None = None
        """(a publication, one that it depends on), beside the previous one of its client; None: not looked for."""

    def join(self, gathered: GatheredHints) -> None:
        self.heard_by_correct[gathered.heard] = True
        number, tseq = gathered.claims
        self.claims_any |= bool(len(number))
        fresh = self.claim[number] == NULL
        self.claim[number[fresh]] = tseq[fresh]
        self._contradicted[number[self.claim[number] != tseq]] = True
        np.minimum.at(self.ready, *gathered.elsewhere)
        if gathered.links is not None:
            self._links.append(gathered.links)
        self.applied += gathered.applied
        self.has_unfounded |= gathered.has_unfounded

    def settle(self) -> None:
        """After everything is joined."""
        placed = np.flatnonzero(self.claim != NULL)
        places = np.unique(np.stack((self._publications.lane[placed], self.claim[placed])), axis=1)
        self.breaks_places = bool(self._contradicted.any()) or places.shape[1] < len(placed)
        self.claim[self._contradicted] = NULL
        for numbers in self._publications.of_publisher():  # whoever has a later one has all before it in its past
            self.ready[numbers] = np.minimum.accumulate(self.ready[numbers][::-1])[::-1]
        if self._links:
            links = _latest_of_each_life(np.concatenate(self._links, axis=1), self._publications.life)
            self.links = links.astype(np.int32)
        self._links = []
        del self._publications  # everybody who is given hints has them


def find_links(context: Context, deliveries: Deliveries, wanted: Array | None = None) -> Array:
    """Of the wanted publications, or of all. Looks at each delivery once, however many publications there are: this is
    done for every portion of a large run."""
    publications = context.publications
    sound = _sound(context, deliveries)
    sound = sound[publications.ordered[deliveries.number[sound]]]
    given = deliveries.number[sound]
    dependent = publications.next_after(publications.in_lane(deliveries.life[sound], given), deliveries.row[sound])
    is_linked = dependent >= 0
    if wanted is not None:
        is_wanted = np.zeros(len(publications), dtype=np.bool_)
        is_wanted[wanted] = True
        is_linked &= is_wanted[dependent]
    return _latest_of_each_life(np.stack((dependent[is_linked], given[is_linked])), publications.life)


def _sound(context: Context, deliveries: Deliveries) -> Array:
    """Places of deliveries whose publication stands before them."""
    number, publications = deliveries.number, context.publications
    known = np.flatnonzero((number >= 0) & (number < len(publications)))
    return known[deliveries.row[known] > publications.row[number[known]]]


def _latest_of_each_life(links: Array, life: Array) -> Array:
    dependent, given = links
    if not len(given):
        return links
    dependent, _, given = distinct(dependent, life[given], given)
    last = np.append((dependent[1:] != dependent[:-1]) | (life[given[1:]] != life[given[:-1]]), True)
    found: Array = np.stack((dependent[last], given[last]))
    return found
