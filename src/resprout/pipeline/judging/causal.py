"""Causal order at many subscribers in one sweep over publications.

As in `audit.causal`, L(x) at a subscriber is the latest place there of anything that x depends on. Here a row holds L
of one publication for all subscribers, and publications that do not depend on each other are worked on together: the
sweep costs as many steps on whole arrays as there are such batches. It covers only the stretches of publications in
which somebody is suspected; a chain from one publication to another never leaves the numbers between them.
"""

from collections.abc import Sequence

import numpy as np

from resprout.pipeline.judging.arrays import Array, spread
from resprout.pipeline.judging.publications import Publications


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
