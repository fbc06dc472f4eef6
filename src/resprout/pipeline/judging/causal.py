"""Causal order: which subscribers may have broken it, and whether they did.

Most did not, and that is seen quickly: a publication d can be in the past of one by another client only if some client
was given d, or a later one of the same client, before that (`Hints.ready`). So something is suspect only if it was
published later than that and delivered before d. Only from each suspect back to the earliest such d is looked at
exactly.

As in `audit.causal`, L(x) at a subscriber is the latest place there of anything that x depends on. Here a row holds L
of one publication for all subscribers, and publications that do not depend on each other are worked on together: the
sweep costs as many steps on whole arrays as there are such batches. It covers only the stretches of publications in
which somebody is suspected; a chain from one publication to another never leaves the numbers between them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from resprout.core.guarantee import Guarantee
from resprout.pipeline.judging.columns import NEVER, Array, is_same, spread
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.deliveries import Checks, Deliveries, Subscriber
from resprout.pipeline.judging.hints import Hints, find_links
from resprout.pipeline.judging.publications import Publications

CELLS_MAX: Final = 16_000_000
"""Publications times subscribers in one sweep: 128 MB at most."""


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
        earliest = np.where(ordered, sequence, NEVER)
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
