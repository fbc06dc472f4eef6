"""Which ranges hold a number: a set of ranges that changes cheaply and is asked often.

Ranges with one end are sorted by that end; those that hold a number are then the front or the back of the list. Ranges
with two ends are sorted by their lower end, in classes by length: class e holds lengths below 2**e, so the ranges that
hold v begin between v - 2**e and v, and about half of those that begin there do hold it. There are at most
`CLASSES_MAX` classes, and only lengths beyond them are searched less narrowly. Compared with an interval tree this
needs no balancing, and almost everything happens in slices.

Arithmetic on bounds is exact or rounds to the safe side: numbers of 64 bits meet floats here.
"""

import math
from bisect import bisect_left, bisect_right
from fractions import Fraction
from typing import Any, Final, Generic, TypeAlias, TypeVar

from resprout.filters.access import INFINITE, Number

Item = TypeVar("Item")
Entry: TypeAlias = tuple[Number, int, Number, Any]
"""(end to sort by, serial of the item, other end, item): the serial makes every entry distinct and sortable."""

_RUN: Final = 512
"""Entries per run; a run is cut in two at twice that. Moving a run's worth of pointers is cheaper than finding them."""
_EXPONENT_MIN: Final = -64
_EXPONENT_MAX: Final = 72
CLASSES_MAX: Final = _EXPONENT_MAX - _EXPONENT_MIN + 2
_EXACT_FLOAT: Final = 2**53


class RangeSet(Generic[Item]):
    """Items with ranges; the same item may have several, each different."""

    __slots__ = ("_from", "_spans", "_until")

    def __init__(self) -> None:
        self._from = SortedRuns()
        self._until = SortedRuns()
        self._spans: dict[int, SortedRuns] = {}

    def __bool__(self) -> bool:
        return bool(self._from or self._until or self._spans)

    def add(self, low: Number, high: Number, serial: int, item: Item) -> None:
        if high == INFINITE:
            self._from.add((low, serial, high, item))
        elif low == -INFINITE:
            self._until.add((high, serial, low, item))
        else:
            self._spans.setdefault(_length_class(low, high), SortedRuns()).add((low, serial, high, item))

    def remove(self, low: Number, high: Number, serial: int, item: Item) -> None:
        if high == INFINITE:
            self._from.remove((low, serial, high, item))
        elif low == -INFINITE:
            self._until.remove((high, serial, low, item))
        else:
            exponent = _length_class(low, high)
            runs = self._spans[exponent]
            runs.remove((low, serial, high, item))
            if not runs:
                del self._spans[exponent]

    def collect(self, value: Number, found: list[Item]) -> None:
        """Append the items of all ranges that hold the value, which is not NaN."""
        if self._from:
            found += [entry[3] for entry in self._from.between(-INFINITE, value)]
        if self._until:
            found += [entry[3] for entry in self._until.between(value, INFINITE)]
        for exponent, runs in self._spans.items():
            begun = runs.between(_earliest(value, exponent), value)
            found += [item for _, _, high, item in begun if high >= value]


class SortedRuns:
    """Entries in order, kept in runs of bounded size so that a change moves little."""

    __slots__ = ("_lasts", "_runs")

    def __init__(self) -> None:
        self._runs: list[list[Entry]] = []
        self._lasts: list[Entry] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, entry: Entry) -> None:
        if not self._runs:
            self._runs.append([entry])
            self._lasts.append(entry)
            return
        place = min(bisect_left(self._lasts, entry), len(self._runs) - 1)
        run = self._runs[place]
        run.insert(bisect_left(run, entry), entry)
        if len(run) >= 2 * _RUN:
            self._runs.insert(place + 1, run[_RUN:])
            del run[_RUN:]
            self._lasts.insert(place, run[-1])
        self._lasts[place] = run[-1]
        self._lasts[-1] = self._runs[-1][-1]  # the entry may be the greatest of all, and its run just cut

    def remove(self, entry: Entry) -> None:
        place = bisect_left(self._lasts, entry)
        run = self._runs[place]
        del run[bisect_left(run, entry)]
        if run:
            self._lasts[place] = run[-1]
        else:
            del self._runs[place], self._lasts[place]

    def between(self, low: Number, high: Number) -> list[Entry]:
        """The entries whose sorting end lies between the two, both included."""
        first = bisect_left(self._lasts, (low,))
        if first == len(self._runs):
            return []
        run = self._runs[first]
        begin = bisect_left(run, (low,))
        if run[-1][0] > high:
            return run[begin : bisect_right(run, (high, INFINITE))]
        entries = run[begin:]
        for run in self._runs[first + 1 :]:
            if run[-1][0] > high:
                entries += run[: bisect_right(run, (high, INFINITE))]
                break
            entries += run
        return entries


def _length_class(low: Number, high: Number) -> int:
    """The least e (within bounds) with high - low < 2**e."""
    length = Fraction(high) - Fraction(low)
    exponent = length.numerator.bit_length() - length.denominator.bit_length() + 1
    return max(_EXPONENT_MIN, min(exponent, _EXPONENT_MAX + 1))


def _earliest(value: Number, exponent: int) -> Number:
    """No range of this class that holds the value begins before this."""
    if exponent > _EXPONENT_MAX:
        return -INFINITE
    if isinstance(value, int) and not -_EXACT_FLOAT <= value <= _EXACT_FLOAT:
        return value - (1 << max(exponent, 0))
    return math.nextafter(value - math.ldexp(1.0, exponent), -INFINITE)
