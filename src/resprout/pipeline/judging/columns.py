"""Rows of a run as arrays of numbers, attributes of rows as columns, and small tools on arrays that numpy lacks.

Texts are numbers of a `Vocabulary` that all rows of a run share. An empty cell is NULL for numbers, -1 for texts, and a
length of -1 for lists. Each distinct text of attributes is read once.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resprout.trace.schema import TraceError, from_text

Array: TypeAlias = NDArray[Any]

NULL: Final = int(np.iinfo(np.int64).min)
"""Stands for an empty cell of a column of numbers."""
NEVER: Final = int(np.iinfo(np.int64).max)
"""Later than any row, as in `audit.records`."""


def spread(start: Array, length: Array) -> Array:
    """The places start, start + 1, ... of every extent, one extent after the other."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - length), length) + np.arange(total)


def first_places(keys: Array, size: int) -> Array:
    """For each number below `size`, where it stands first in `keys`; -1 when it does not."""
    places = np.full(size, -1, dtype=np.int64)
    places[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)  # of several writes the last one stays
    return places


def is_same(keys: Array) -> Array:
    """For each element but the first, whether it equals the one before."""
    same: Array = keys[1:] == keys[:-1]
    return same


def stable_order(keys: Array, size: int) -> Array:
    """Places sorted by key (each below `size`), equal keys as they stand."""
    if size <= 1 << 16:
        return np.argsort(keys.astype(np.uint16), kind="stable")  # numpy sorts these by radix, in linear time
    return np.argsort(keys, kind="stable")


def distinct(*columns: Array) -> tuple[Array, ...]:
    """The distinct rows of these columns (numbers from 0), sorted."""
    spans = [int(column.max()) + 1 if len(column) else 1 for column in columns]
    packed, room = columns[0].astype(np.int64), spans[0]
    for column, span in zip(columns[1:], spans[1:], strict=True):
        if room * span >= 1 << 62:
            return tuple(np.unique(np.stack(columns), axis=1))
        packed, room = packed * span + column, room * span
    packed = np.sort(packed)  # much faster than np.unique, which hashes
    packed = packed[np.append(True, ~is_same(packed))[: len(packed)]]
    found = []
    for span in reversed(spans[1:]):
        packed, column = np.divmod(packed, span)
        found.append(column)
    return (packed, *reversed(found))


class UnreadableError(Exception):
    """The rows are not those of a trace, or not such as this reads: the judge in Python says what is wrong."""


class Vocabulary:
    """Texts, and the numbers that stand for them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        code = self._codes.setdefault(text, len(self.texts))
        if code == len(self.texts):
            self.texts.append(text)
        return code

    def codes(self, texts: Iterable[str]) -> Array:
        return np.fromiter(map(self.code, texts), dtype=np.int32)

    def find(self, text: str) -> int:
        """-1 when it is not there."""
        return self._codes.get(text, -1)

    def find_all(self, texts: Iterable[str]) -> list[int]:
        """Only of those that are there."""
        return [self._codes[text] for text in texts if text in self._codes]

    def __len__(self) -> int:
        return len(self.texts)


class Words:
    """The vocabularies of a run. Nodes and publishers are names alike."""

    def __init__(self) -> None:
        self.names = Vocabulary()
        self.kinds = Vocabulary()
        self.streams = Vocabulary()
        self.topics = Vocabulary()
        self.keys = Vocabulary()
        self.guarantees = Vocabulary()
        self.receipts = Vocabulary()
        self.filters = Vocabulary()
        self.attributes = Vocabulary()
        self.values = Vocabulary()
        self.details = Vocabulary()

    def of_column(self, name: str) -> Vocabulary:
        shared = {"node": "names", "publisher": "names", "filter": "filters", "where": "filters"}
        found: Vocabulary = getattr(self, shared.get(name, f"{name}s"))
        return found


class ListColumn:
    """One list per row; equal cells may share their content."""

    def __init__(self, start: Array, length: Array, content: tuple[Array, ...]) -> None:
        self.start = start
        self.length = length
        """-1 where the cell is empty."""
        self.content = content

    def take(self, places: Array) -> "ListColumn":
        return ListColumn(self.start[places], self.length[places], self.content)

    def compact(self) -> "ListColumn":
        """With its own content only, list after list."""
        length = np.maximum(self.length, 0)
        places = spread(self.start, length)
        return ListColumn(np.cumsum(length) - length, self.length, tuple(column[places] for column in self.content))

    @staticmethod
    def joined(pieces: "Sequence[ListColumn]") -> "ListColumn":
        content = tuple(np.concatenate(columns) for columns in zip(*(p.content for p in pieces), strict=True))
        shifts = np.cumsum([0, *(len(piece.content[0]) for piece in pieces)])
        start = np.concatenate([piece.start + shift for piece, shift in zip(pieces, shifts, strict=False)])
        return ListColumn(start, np.concatenate([piece.length for piece in pieces]), content)


class Rows:
    """Rows of one run, column by column."""

    def __init__(self, columns: dict[str, Array], lists: dict[str, ListColumn]) -> None:
        self._columns = columns
        self._lists = lists

    def __getattr__(self, name: str) -> Array:
        columns = self.__dict__.get("_columns", {})  # not yet there while it is unpickled
        if name not in columns:
            raise AttributeError(name)
        found: Array = columns[name]
        return found

    def __len__(self) -> int:
        return len(self._columns["row"])

    @property
    def keys(self) -> ListColumn:
        return self._lists["keys"]

    @property
    def attributes(self) -> ListColumn:
        return self._lists["attributes"]

    def take(self, places: Array, *names: str) -> "Rows":
        """These rows; only these columns, if any are named."""
        columns = {n: c[places] for n, c in self._columns.items() if not names or n in names}
        return Rows(columns, {n: c.take(places) for n, c in self._lists.items() if not names or n in names})

    @staticmethod
    def joined(pieces: "Sequence[Rows]") -> "Rows":
        if len(pieces) == 1:
            return pieces[0]
        columns = {n: np.concatenate([p._columns[n] for p in pieces]) for n in pieces[0]._columns}
        return Rows(columns, {n: ListColumn.joined([p._lists[n] for p in pieces]) for n in pieces[0]._lists})

    def compact(self) -> "Rows":
        return Rows(self._columns, {name: lists.compact() for name, lists in self._lists.items()})

    def renumbered(self, rank: Array) -> "Rows":
        """With `rank[row]` for each row, in the order of that."""
        row = rank[self.row]
        order = np.argsort(row)
        found = self.take(order)
        found._columns["row"] = row[order]
        return found


def cells_of(lists: ListColumn) -> tuple[Array, Array, Array]:
    """(row, name, text) of every attribute."""
    length = np.maximum(lists.length, 0)
    places = spread(lists.start, length)
    return np.repeat(np.arange(len(length)), length), lists.content[0][places], lists.content[1][places]


def text_of(cells: tuple[Array, Array, Array], name: int, count: int) -> Array:
    """For each row the text of one attribute; -1 for none."""
    found = np.full(count, -1, dtype=np.int64)
    here = cells[1] == name
    found[cells[0][here]] = cells[2][here]
    return found


def values_of(words: Words, texts: Array) -> list[object]:
    """The values of the distinct texts, in order; None for a missing one."""
    try:
        return [None if text < 0 else from_text(words.values.texts[text]) for text in np.unique(texts).tolist()]
    except TraceError as error:
        raise UnreadableError(str(error)) from None


def table_of(values: list[int], texts: Array, words: Words) -> Array:
    """For each word of the values what was found for it, given for the distinct ones in order; the last is for -1."""
    table = np.zeros(len(words.values) + 1, dtype=np.int64)
    table[np.unique(texts)] = values
    return table
