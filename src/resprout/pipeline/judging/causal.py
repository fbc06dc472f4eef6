"""Causal order across subscribers: what each must know of the others, which may have broken it, and whether they did.

`Hints` are gathered from any portion of the deliveries, and joined: what correct subscribers were given, which order of
totals the run claims, and what each publication depends on. With them each subscriber can be judged alone.

Most subscribers did not break causal order, and that is seen quickly: a publication d can be in the past of one by
another client only if some client was given d, or a later one of the same client, before that (`Hints.ready`). So
something is suspect only if it was published later than that and delivered before d. Only from each suspect back to the
earliest such d is checked exactly.

As in `audit.causal`, L(x) at a subscriber is the latest place there of anything that x depends on. Here a row holds L
of one publication for all subscribers, and publications that do not depend on each other are worked on together: the
sweep costs as many steps on whole arrays as there are such batches. It covers only the stretches of publications in
which somebody is suspected; a chain from one publication to another never leaves the numbers between them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from resprout.core.guarantee import Guarantee
from resprout.pipeline.judging.bank import AppliedRows
from resprout.pipeline.judging.columns import NEVER, NULL, Array, distinct, is_same, spread
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.deliveries import Checks, Deliveries, Subscriber
from resprout.pipeline.judging.publications import Publications

CELLS_MAX: Final = 16_000_000
"""Publications times subscribers in one sweep: 128 MB at most."""


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


class Stretches:
    """Ranges of publications, joined where they overlap; those in them are counted from 0."""

    def __init__(self, begin: Array, end: Array) -> None:
        """`end`: not included."""
        order = np.argsort(begin, kind="stable")
        begin, reach = begin[order], np.maximum.accumulate(end[order])
        fresh = np.append(True, begin[1:] > reach[:-1])
        self._begin = begin[fresh]
        self._end = reach[np.append(np.flatnonzero(fresh)[1:] - 1, len(reach) - 1)]
        self._shift = np.cumsum(self._end - self._begin) - self._end

    def __len__(self) -> int:
        return int(self._shift[-1] + self._end[-1])

    def numbers(self) -> Array:
        return spread(self._begin, self._end - self._begin)

    def of(self, numbers: Array) -> Array:
        """Which stretch each is in; -1 for none."""
        place = np.searchsorted(self._begin, numbers, side="right") - 1
        found: Array = np.where((place >= 0) & (numbers < self._end[place]), place, -1)
        return found

    def places(self, numbers: Array) -> Array:
        """Of publications that are in one."""
        found: Array = numbers + self._shift[self.of(numbers)]
        return found


class Dependencies:
    """For each publication of the stretches what it depends on directly in its own one, one list after the other."""

    def __init__(self, publications: Publications, links: Array, stretches: Stretches) -> None:
        """`links`: at least those of the stretches."""
        count = self.count = len(stretches)
        own = stretches.numbers()
        own = own[publications.previous[own] >= 0]
        number = np.concatenate([own, links[0]])
        given = np.concatenate([publications.previous[own], links[1]])
        inside = np.flatnonzero((stretches.of(number) == stretches.of(given)) & (stretches.of(given) >= 0))
        number, given = stretches.places(number[inside]), stretches.places(given[inside])
        alone = np.ones(count, dtype=np.bool_)
        alone[number] = False  # reduceat needs something for each: a place that nobody has
        number = np.concatenate([number, np.flatnonzero(alone)])
        given = np.concatenate([given, np.full(np.count_nonzero(alone), count)])
        order = np.argsort(number, kind="stable")
        self._given = given[order]
        self._start = np.searchsorted(number[order], np.arange(count + 1))
        self._batches = self._independent()

    def sweep(self, reach: Array) -> None:
        """`reach`: one row per publication and an empty one after them, one column per subscriber, -1 for nothing.
        Afterwards each cell is the highest of its own and those it depends on."""
        given, start = self._given, self._start
        bounds = start.tolist()
        for begin, end in self._batches:
            first = bounds[begin]
            bound = np.maximum.reduceat(reach[given[first : bounds[end]]], start[begin:end] - first, axis=0)
            own = reach[begin:end]
            np.maximum(own, bound, out=own)

    def _independent(self) -> Sequence[tuple[int, int]]:
        """Ranges of publications none of which depends on another one of the same range."""
        latest = np.maximum.reduceat(np.where(self._given == self.count, -1, self._given), self._start[:-1]).tolist()
        batches = []
        begin = 0
        for number, dependency in enumerate(latest):
            if dependency >= begin:
                batches.append((begin, number))
                begin = number
        return [*batches, (begin, self.count)]


class Suspicion(NamedTuple):
    """One subscriber, and what it delivered that may have come before something it depends on."""

    subscriber: Subscriber
    suspects: Array
    """Places in what it heard."""
    since: Array
    """For each, the earliest publication that it may have missed."""
    own: tuple[Array, Array]
    """Publications, and for each the place (or row) that what depends on it must not precede."""
    bound: Array
    """The place (or row) of each suspect."""


class Sweeps:
    """Collects suspicions until they are worth a sweep."""

    def __init__(self, context: Context, hints: Hints, checks: Checks, deliveries: Deliveries) -> None:
        self._context = context
        self._publications = context.publications
        self._hints = hints
        self._checks = checks
        self._deliveries = deliveries
        self._judged = context.publications.level >= Guarantee.CAUSAL
        self._waiting: list[Suspicion] = []

    def add(self, s: Subscriber) -> None:
        for suspicion in (self._of_order(s), self._of_missing(s)):
            if suspicion is not None:
                self._waiting.append(suspicion)
        if (len(self._waiting) + 2) * len(self._publications) > CELLS_MAX:
            self.finish()

    def finish(self) -> None:
        """Looks at all that are waiting."""
        batch, self._waiting = self._waiting, []
        if not batch or "causal" in self._checks.broken:
            return
        ends = np.concatenate([s.subscriber.heard[s.suspects] for s in batch]) + 1
        stretches = Stretches(np.concatenate([s.since for s in batch]), ends)
        reach = np.full((len(stretches) + 1, len(batch)), -1, dtype=np.int64)
        for column, s in enumerate(batch):
            numbers, values = s.own
            inside = np.flatnonzero(stretches.of(numbers) >= 0)
            reach[stretches.places(numbers[inside]), column] = values[inside]
        Dependencies(self._publications, self._links(stretches), stretches).sweep(reach)
        for column, s in enumerate(batch):
            latest = reach[stretches.places(s.subscriber.heard[s.suspects]), column]
            self._checks.note("causal", bool(np.any(latest > s.bound)))

    def _of_order(self, s: Subscriber) -> Suspicion | None:
        """Whether something came too late. Publications of one client are seen to by their numbers."""
        sequence, publications = s.sequence, self._publications
        ordered = publications.ordered[sequence]
        ready = np.where(ordered, self._hints.ready[sequence], NEVER)
        if self._context.breaks_identity or "fifo" in self._checks.broken:
            ready = np.where(ordered, -1, NEVER)
        earliest = np.where(ordered, sequence, np.int64(NEVER))  # a Python integer would have to fit in 32 bits
        lane = publications.lane[sequence] if publications.lanes > 1 else None
        ready, earliest = (_lowest_behind(column, lane) for column in (ready, earliest))
        suspect = self._judged[sequence] & (ready < publications.row[sequence]) & (earliest < sequence)
        if not suspect.any():
            return None
        places = s.by_position[suspect]
        heard = np.flatnonzero(publications.ordered[s.heard])
        own = (s.heard[heard], s.heard_position[heard])
        return Suspicion(s, places, earliest[suspect], own, s.heard_position[places])

    def _of_missing(self, s: Subscriber) -> Suspicion | None:
        """Whether something that never came was needed: rows until which it was due against rows of deliveries."""
        if s.life not in self._checks.missing:
            return None
        missing, until = self._checks.missing[s.life]
        first = int(missing.min())
        places = np.flatnonzero(self._judged[s.heard] & (s.heard > first) & (s.heard_row < until.max()))
        if not len(places):
            return None
        return Suspicion(s, places, np.full(len(places), first), (missing, until), s.heard_row[places])

    def _links(self, stretches: Stretches) -> Array:
        if self._hints.links is not None:
            return self._hints.links
        return find_links(self._context, self._deliveries, stretches.numbers())


def _lowest_behind(column: Array, lane: Array | None) -> Array:
    """For each place the lowest value behind it, NEVER for none; of the same lane, where there are several."""
    if lane is None:
        found: Array = np.append(np.minimum.accumulate(column[::-1])[::-1][1:], NEVER)
        return found
    lowest = np.empty(len(column), dtype=np.int64)
    order = np.argsort(lane, kind="stable")
    for places in np.split(order, np.flatnonzero(~is_same(lane[order])) + 1):
        if len(places):
            lowest[places] = _lowest_behind(column[places], None)
    return lowest
