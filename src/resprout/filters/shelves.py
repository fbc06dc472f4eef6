"""Keeps conditions where a message's attributes lead to them, so that few are tested in vain.

A bucket starts as a plain collection, tested one by one. When it grows, it becomes a shelf: each condition goes under
the best of its keys (`filters.access`): by value, by range, or by mere presence of an attribute; what has no key stays
unsorted. Under one value there is a bucket again, which may become a shelf over the *other* attributes: ten thousand
conditions that share `kind = 'trade'` are told apart by their price. Whoever asks gets candidates and tests them.

`RangeSet` and `SortedRuns` tell which ranges hold a number; such a set changes cheaply and is asked often. Ranges with
one end are sorted by that end; those that hold a number are then the front or the back of the list. Ranges with two
ends are sorted by their lower end, in classes by length: class e holds lengths below 2**e, so the ranges that hold v
begin between v - 2**e and v, and about half of those that begin there do hold it. There are at most `CLASSES_MAX`
classes, and only lengths beyond them are searched less narrowly. Compared with an interval tree this needs no
balancing, and almost everything happens in slices. Arithmetic on bounds is exact or rounds to the safe side: numbers of
64 bits meet floats here.
"""

import math
from bisect import bisect_left, bisect_right
from fractions import Fraction
from typing import Any, Final, Generic, TypeAlias, TypeVar

from resprout.core.limits import Attributes, AttributeValue
from resprout.filters.access import (
    INFINITE,
    AccessKey,
    Alternative,
    Equal,
    Number,
    ValueRange,
    alternatives_of,
    preference,
    text_rank,
)
from resprout.filters.conditions import hash_key
from resprout.filters.predicate import Condition

Item = TypeVar("Item")
Entry: TypeAlias = tuple[Number, int, Number, Any]
"""(end to sort by, serial of the item, other end, item): the serial makes every entry distinct and sortable."""

_RUN: Final = 512
"""Entries per run; a run is cut in two at twice that. Moving a run's worth of pointers is cheaper than finding them."""
_EXPONENT_MIN: Final = -64
_EXPONENT_MAX: Final = 72
CLASSES_MAX: Final = _EXPONENT_MAX - _EXPONENT_MIN + 2
_EXACT_FLOAT: Final = 2**53

Id = TypeVar("Id")

BUCKET_ROWS: Final = 16
"""Testing this many conditions costs about as much as looking up the attributes of a message."""
NESTING_MAX: Final = 4
"""Attributes by which one condition is told apart, at most: bounds the work of a change."""


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


class ShelfRow(Generic[Id]):
    """A condition and who asks for it."""

    __slots__ = ("_alternatives", "condition", "members", "serial", "test")

    def __init__(self, serial: int, condition: Condition) -> None:
        self.serial = serial
        self.condition = condition
        self.test = condition.matches
        self.members: dict[int, Id] = {}
        self._alternatives: list[Alternative] | None = None

    @property
    def alternatives(self) -> list[Alternative]:
        if self._alternatives is None:
            self._alternatives = alternatives_of(self.condition.node)
        return self._alternatives


class Bucket:
    """Conditions that one step of the search leads to. `fixed` names the attributes whose values led here."""

    __slots__ = ("_fixed", "_rows", "_shelf", "size")

    def __init__(self, fixed: tuple[str, ...] = ()) -> None:
        self.size = 0
        self._fixed = fixed
        self._rows: dict[ShelfRow[Any], None] = {}
        self._shelf: Shelf | None = None

    def add(self, row: ShelfRow[Any]) -> None:
        self.size += 1
        if self._shelf is not None:
            self._shelf.add(row)
            return
        self._rows[row] = None
        if self.size > BUCKET_ROWS and len(self._fixed) < NESTING_MAX:
            self._shelf = Shelf(self._fixed)
            for known in self._rows:
                self._shelf.add(known)
            self._rows = {}

    def remove(self, row: ShelfRow[Any]) -> None:
        self.size -= 1
        if self._shelf is None:
            del self._rows[row]
        else:
            self._shelf.remove(row)

    def collect(self, attributes: Attributes, found: list[ShelfRow[Any]]) -> None:
        """Append every condition that may be true, and perhaps some that are not; a few may come twice."""
        if self._shelf is None:
            found += self._rows
        else:
            self._shelf.collect(attributes, found)


class Shelf:
    """Conditions sorted by keys."""

    __slots__ = ("_fixed", "_keys", "_tables", "_unsorted")

    def __init__(self, fixed: tuple[str, ...]) -> None:
        self._fixed = fixed
        self._tables: dict[str, _Table] = {}
        self._keys: dict[ShelfRow[Any], Alternative] = {}
        self._unsorted: dict[ShelfRow[Any], None] = {}

    def add(self, row: ShelfRow[Any]) -> None:
        keys = self._choose(row)
        if keys is None:
            self._unsorted[row] = None
            return
        self._keys[row] = keys
        for key in keys:
            table = self._tables.get(key.name)
            if table is None:
                table = self._tables[key.name] = _Table((*self._fixed, key.name))
            table.add(key, row)

    def remove(self, row: ShelfRow[Any]) -> None:
        keys = self._keys.pop(row, None)
        if keys is None:
            del self._unsorted[row]
            return
        for key in keys:
            table = self._tables[key.name]
            table.remove(key, row)
            if not table:
                del self._tables[key.name]

    def collect(self, attributes: Attributes, found: list[ShelfRow[Any]]) -> None:
        found += self._unsorted
        tables = self._tables
        for name, value in attributes.items():
            table = tables.get(name)
            if table is not None:
                table.collect(value, attributes, found)

    def _choose(self, row: ShelfRow[Any]) -> Alternative | None:
        """By kind of key, then by how crowded it is there already."""
        best: Alternative | None = None
        best_cost = (0, 0)
        for alternative in row.alternatives:
            if any(key.name in self._fixed for key in alternative):
                continue
            cost = (preference(alternative), max(map(self._crowd, alternative)))
            if best is None or cost < best_cost:
                best, best_cost = alternative, cost
        return best

    def _crowd(self, key: AccessKey) -> int:
        table = self._tables.get(key.name)
        return table.crowd(key) if table is not None else 0


class _Table:
    """The part of a shelf for one attribute."""

    __slots__ = ("_equal", "_fixed", "_numbers", "_present", "_texts")

    def __init__(self, fixed: tuple[str, ...]) -> None:
        self._fixed = fixed
        self._equal: dict[object, Bucket] = {}
        self._numbers: RangeSet[ShelfRow[Any]] = RangeSet()
        self._texts: RangeSet[ShelfRow[Any]] = RangeSet()
        self._present: dict[ShelfRow[Any], None] = {}

    def __bool__(self) -> bool:
        return bool(self._equal or self._numbers or self._texts or self._present)

    def crowd(self, key: AccessKey) -> int:
        if isinstance(key, Equal):
            bucket = self._equal.get(key.value)
            return 0 if bucket is None else bucket.size
        return 0 if isinstance(key, ValueRange) else len(self._present)

    def add(self, key: AccessKey, row: ShelfRow[Any]) -> None:
        if isinstance(key, Equal):
            bucket = self._equal.get(key.value)
            if bucket is None:
                bucket = self._equal[key.value] = Bucket(self._fixed)
            bucket.add(row)
        elif isinstance(key, ValueRange):
            (self._texts if key.of_text else self._numbers).add(key.low, key.high, row.serial, row)
        else:
            self._present[row] = None

    def remove(self, key: AccessKey, row: ShelfRow[Any]) -> None:
        if isinstance(key, Equal):
            bucket = self._equal[key.value]
            bucket.remove(row)
            if not bucket.size:
                del self._equal[key.value]
        elif isinstance(key, ValueRange):
            (self._texts if key.of_text else self._numbers).remove(key.low, key.high, row.serial, row)
        else:
            del self._present[row]

    def collect(self, value: AttributeValue, attributes: Attributes, found: list[ShelfRow[Any]]) -> None:
        found += self._present
        bucket = self._equal.get(hash_key(value))
        if bucket is not None:
            bucket.collect(attributes, found)
        if isinstance(value, str):
            if self._texts:
                self._texts.collect(text_rank(value), found)
        elif self._numbers and not isinstance(value, bool) and value == value:
            self._numbers.collect(value, found)
