"""Keeps conditions where a message's attributes lead to them, so that few are tested in vain.

A bucket starts as a plain collection, tested one by one. When it grows, it becomes a shelf: each condition goes under
the best of its keys (`filters.access`): by value, by range, or by mere presence of an attribute; what has no key stays
unsorted. Under one value there is a bucket again, which may become a shelf over the *other* attributes: ten thousand
conditions that share `kind = 'trade'` are told apart by their price. Whoever asks gets candidates and tests them.
"""

from typing import Any, Final, Generic, TypeVar

from resprout.core.names import Attributes, AttributeValue
from resprout.filters.access import AccessKey, Alternative, Equal, ValueRange, alternatives_of, preference, text_rank
from resprout.filters.evaluation import hash_key
from resprout.filters.ranges import RangeSet
from resprout.filters.where import Condition

Id = TypeVar("Id")

BUCKET_ROWS: Final = 16
"""Testing this many conditions costs about as much as looking up the attributes of a message."""
NESTING_MAX: Final = 4
"""Attributes by which one condition is told apart, at most: bounds the work of a change."""


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
