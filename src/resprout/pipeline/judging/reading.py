"""Part files of a run as `Rows`, read without making a Python object per row.

Parquet keeps texts in dictionaries, and so they stay: only distinct texts are looked up. Only columns that the checks
look at are read. `RowIntake` separates deliveries, which are most of a run, from all other rows. A run that is judged
in portions does not keep its deliveries there: the rest needs to know only how many there are of each client, and when
a client first had one.

`Fingerprint` takes the digest of a run from its columns: the same as `trace.schema` takes over rows. Every cell becomes
its MessagePack bytes, column by column; distinct texts are encoded once. The bytes of a row are those of its cells one
after the other, which Arrow joins, and SHA-256 runs over all of them.
"""

import functools
import hashlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resprout.pipeline.judging.columns import (
    NULL,
    Array,
    ListColumn,
    Rows,
    UnreadableError,
    Vocabulary,
    Words,
    first_places,
)
from resprout.pipeline.judging.publications import Lives
from resprout.pipeline.places import TracePart
from resprout.pipeline.stores import source_of
from resprout.trace import kinds
from resprout.trace.schema import COLUMNS

_TEXTS: Final = ("node", "kind", "publisher", "stream", "topic", "guarantee", "receipt", "filter", "where", "detail")
_NUMBERS: Final = ("time_us", "incarnation", "seq", "position", "tseq")
_INSIDE: Final = ("keys.list.element", "attributes.key_value.key", "attributes.key_value.value")
_CODED: Final = [*_TEXTS, *_INSIDE]
_COLUMNS: Final = [*_TEXTS, *_NUMBERS, "keys", "attributes"]

_NIL: Final = b"\xc0"
_ROW: Final = b"\xdc" + len(COLUMNS).to_bytes(2, "big")
"""A row begins like an array of so many cells."""
_SMALL: Final = 1 << 16
"""Numbers below it are encoded once per process: positions, sizes, counts."""
_FEW: Final = 15
"""A list or map of so many begins with one byte."""
_encode: Final = msgspec.msgpack.Encoder().encode
_LOW = np.array([-(1 << 63), -(1 << 31), -(1 << 15), -(1 << 7), -(1 << 5), 1 << 7, 1 << 8, 1 << 16, 1 << 32])
"""From each on, up to the next, integers have the same form."""
_MARK = np.array([0xD3, 0xD2, 0xD1, 0xD0, 0, 0xCC, 0xCD, 0xCE, 0xCF], dtype=np.uint8)
_SIZE = np.array([8, 4, 2, 1, 0, 1, 2, 4, 8])
"""Bytes after the mark; 0 where the number is its own mark."""

DELIVERY_COLUMNS = (
    "row", "node", "publisher", "incarnation", "stream", "seq", "topic", "keys", "guarantee", "position", "tseq",
)  # fmt: skip


class Fingerprint:
    """Grows as row groups come, in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, table: Any) -> None:
        """`table`: all columns, each in one piece, its texts in dictionaries."""
        if not table.num_rows:
            return
        pieces: list[Any] = [pa.scalar(_ROW, type=pa.large_binary())]
        pieces += [_cells(table.column(name).chunk(0)) for name in COLUMNS]
        joined = pc.binary_join_element_wise(*pieces, pa.scalar(b"", type=pa.large_binary()))
        offsets = np.frombuffer(joined.buffers()[1], dtype=np.int64)[joined.offset : joined.offset + len(joined) + 1]
        self._hash.update(memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])])

    @property
    def value(self) -> str:
        return self._hash.hexdigest()


def _cells(column: Any) -> Any:
    """The bytes of each cell; one value for all when the column is empty."""
    if column.null_count == len(column):
        return pa.scalar(_NIL, type=pa.large_binary())
    if pa.types.is_dictionary(column.type):
        return _encoded_texts(column)
    if pa.types.is_integer(column.type):
        return _integers(column)
    return _maps(column) if pa.types.is_map(column.type) else _lists(column)


def _encoded_texts(column: Any) -> Any:
    distinct = pa.array([*map(_encode, column.dictionary.to_pylist()), _NIL], type=pa.large_binary())
    return distinct.take(column.indices.fill_null(len(distinct) - 1))


@functools.cache
def _small() -> Any:
    """The bytes of each small number, and of no number at the end."""
    return pa.array([*map(_encode, range(_SMALL)), _NIL], type=pa.large_binary())


def _integers(column: Any) -> Any:
    numbers = np.asarray(column.fill_null(0)).astype(np.int64, copy=False)
    if numbers.min() >= 0 and numbers.max() < _SMALL:
        return _small().take(column.fill_null(_SMALL))
    return _large_integers(column, numbers)


def _large_integers(column: Any, numbers: Array) -> Any:
    form = np.searchsorted(_LOW, numbers, side="right") - 1
    bytes_ = np.empty((len(numbers), 9), dtype=np.uint8)
    bytes_[:, 1:] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
    bytes_[:, 0] = np.where(_SIZE[form] == 0, bytes_[:, 8], _MARK[form])
    if column.null_count:
        empty = np.asarray(column.is_null())
        bytes_[empty, 0] = _NIL[0]
    used = np.empty((len(numbers), 9), dtype=np.bool_)
    used[:, 0] = True
    used[:, 1:] = np.arange(8, 0, -1) <= _SIZE[form][:, None]
    return _binary(np.cumsum(np.r_[0, _SIZE[form] + 1]), bytes_[used])


def _lists(column: Any) -> Any:
    return _nested(column, _encoded_texts(column.values), 0x90, 0xDC)


def _maps(column: Any) -> Any:
    names, texts = _encoded_texts(column.keys), _encoded_texts(column.items)
    return _nested(column, pc.binary_join_element_wise(names, texts, pa.scalar(b"", type=names.type)), 0x80, 0xDE)


def _nested(column: Any, items: Any, few: int, many: int) -> Any:
    """The items of each list after their count."""
    offsets = np.asarray(column.offsets).astype(np.int64)
    length = np.diff(offsets)
    ends = np.frombuffer(items.buffers()[1], dtype=np.int64)[items.offset : items.offset + len(items) + 1]
    data = _binary(ends[offsets], items.buffers()[2]) if len(items) else pa.scalar(b"", type=pa.large_binary())
    heads = [
        bytes([few | n]) if n <= _FEW else bytes([many]) + int(n).to_bytes(2, "big") for n in range(length.max() + 1)
    ]
    head = pa.array([*heads, _NIL], type=pa.large_binary())
    place = np.where(np.asarray(column.is_valid()), length, len(heads)) if column.null_count else length
    return pc.binary_join_element_wise(head.take(pa.array(place)), data, pa.scalar(b"", type=pa.large_binary()))


def _binary(offsets: Array, data: Any) -> Any:
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return pa.Array.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int64)), buffer]
    )


class Group(NamedTuple):
    """A row group of a part file: what is read at once."""

    path: str
    number: int
    first_row: int
    rows: int


def groups_of(parts: Iterable[TracePart]) -> list[Group]:
    """All row groups of a run, in order."""
    found = []
    for part in parts:
        try:
            metadata: Any = pq.read_metadata(source_of(part.path))
        except (pa.ArrowException, OSError) as error:
            raise UnreadableError(str(error)) from None
        first_row = part.first_row
        for number in range(metadata.num_row_groups):
            rows = metadata.row_group(number).num_rows
            found.append(Group(part.path, number, first_row, rows))
            first_row += rows
    return found


def read_group(group: Group, words: Words, fingerprint: Fingerprint | None = None) -> Rows:
    """With a fingerprint all columns are read, and it grows by them."""
    try:
        file: Any = pq.ParquetFile(source_of(group.path), read_dictionary=_CODED)
        table = file.read_row_group(group.number, columns=None if fingerprint else _COLUMNS, use_threads=False)
        if fingerprint is not None:
            fingerprint.add(table)
        return _rows(table, group.first_row, words)
    except (pa.ArrowException, OSError, KeyError, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise UnreadableError(str(error)) from None


def _rows(table: Any, first_row: int, words: Words) -> Rows:
    columns = {name: _texts(table.column(name), words.of_column(name)) for name in _TEXTS}
    columns |= {name: _numbers(table.column(name)) for name in _NUMBERS}
    lists = {"keys": _keys(table.column("keys"), words), "attributes": _attributes(table.column("attributes"), words)}
    if np.any(columns["node"] < 0) or np.any(columns["kind"] < 0) or np.any(columns["time_us"] == NULL):
        raise UnreadableError("a row without time, node or kind")
    if np.any(columns["kind"] == words.of_column("kind").find(kinds.MQTT_CONNECTED)):
        raise UnreadableError("MQTT clients")
    columns["row"] = np.arange(first_row, first_row + table.num_rows)
    return Rows(columns, lists)


def _texts(column: Any, vocabulary: Vocabulary) -> Array:
    return _joined([_coded(chunk, vocabulary) for chunk in column.chunks], np.int32)


def _coded(chunk: Any, vocabulary: Vocabulary) -> Array:
    own = vocabulary.codes(chunk.dictionary.to_pylist())
    if not len(own):
        return np.full(len(chunk), -1, dtype=np.int32)
    indices = chunk.indices
    codes = own[_raw(indices)] if not indices.null_count else own[_raw(indices.fill_null(0))]
    return codes if not indices.null_count else np.where(_valid(indices), codes, np.int32(-1))


def _numbers(column: Any) -> Array:
    pieces = []
    for chunk in column.chunks:
        numbers = _raw(chunk).astype(np.int64, copy=False)
        if chunk.null_count:
            numbers = np.where(_valid(chunk), numbers, NULL)
        pieces.append(numbers)
    joined = _joined(pieces, np.int64)
    if np.count_nonzero(joined == NULL) != column.null_count:
        raise UnreadableError(f"the number {NULL} stands for an empty cell")
    return joined


def _keys(column: Any, words: Words) -> ListColumn:
    pieces = [ListColumn(*_extents(chunk), (_inside(chunk.values, words.keys),)) for chunk in column.chunks]
    return _joined_lists(pieces, 1)


def _attributes(column: Any, words: Words) -> ListColumn:
    pieces = [
        ListColumn(*_extents(chunk), (_inside(chunk.keys, words.attributes), _inside(chunk.items, words.values)))
        for chunk in column.chunks
    ]
    return _joined_lists(pieces, 2)


def _inside(values: Any, vocabulary: Vocabulary) -> Array:
    if values.null_count:
        raise UnreadableError("a list holds a null")
    return _coded(values, vocabulary)


def _extents(chunk: Any) -> tuple[Array, Array]:
    offsets = _raw(chunk.offsets).astype(np.int64)
    length = np.diff(offsets)
    return offsets[:-1], length if not chunk.null_count else np.where(_valid(chunk), length, -1)


def _joined(pieces: list[Array], dtype: Any) -> Array:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.empty(0, dtype=dtype)


def _joined_lists(pieces: list[ListColumn], columns: int) -> ListColumn:
    if not pieces:
        empty = np.empty(0, dtype=np.int64)
        return ListColumn(empty, empty, (empty,) * columns)
    return pieces[0] if len(pieces) == 1 else ListColumn.joined(pieces)


def _raw(array: Any) -> Array:
    """The numbers of an Arrow array, whatever stands in its empty cells."""
    if not len(array):
        return np.empty(0, dtype=array.type.to_pandas_dtype())
    numbers = np.frombuffer(array.buffers()[1], dtype=array.type.to_pandas_dtype())
    return numbers[array.offset : array.offset + len(array)]


def _valid(array: Any) -> Array:
    bits = np.frombuffer(array.buffers()[0], dtype=np.uint8)
    return np.unpackbits(bits, bitorder="little")[array.offset : array.offset + len(array)].view(np.bool_)


class RowIntake:
    def __init__(self, words: Words, keeps_deliveries: bool) -> None:
        self.words = words
        self._keeps_deliveries = keeps_deliveries
        self._talk: list[Rows] = []
        self._deliveries: list[Rows] = []
        self._times: list[Array] = []
        self._seen: list[Rows] = []
        self._given = np.zeros(0, dtype=np.int64)
        self._last_time = NULL
        self.rows = 0
        self.is_in_order = True
        """Whether no clock runs backwards."""

    def add(self, rows: Rows) -> None:
        self.rows += len(rows)
        if not len(rows):
            return
        times = rows.time_us
        self.is_in_order &= bool(times[0] >= self._last_time and np.all(times[1:] >= times[:-1]))
        self._last_time = int(times[-1])
        deliveries = deliveries_of(rows, self.words)
        is_talk = np.ones(len(rows), dtype=np.bool_)
        is_talk[deliveries] = False
        self._talk.append(rows.take(np.flatnonzero(is_talk)).compact())
        if self._keeps_deliveries:
            self._deliveries.append(rows.take(deliveries, *DELIVERY_COLUMNS))
            self._times.append(times)
        else:
            self._seen.append(_first_seen(rows, deliveries, self.words))
            self._count(rows.node[deliveries])

    def arranged(self) -> tuple[Rows, list[Rows]]:
        """(all other rows, portions of the deliveries), numbered in order of time, equal times as in the trace. Of
        deliveries that are not kept: the first one of each life, perhaps with others."""
        if not self._talk:
            raise UnreadableError("a run without rows")
        talk, deliveries = Rows.joined(self._talk), self._deliveries if self._keeps_deliveries else self._seen
        self._talk, self._deliveries = [], []  # whoever asked has them, and lets them go piece by piece
        if self.is_in_order:
            return talk, deliveries
        rank = np.empty(self.rows, dtype=np.int64)
        rank[np.argsort(np.concatenate(self._times), kind="stable")] = np.arange(self.rows)
        whole = Rows.joined(deliveries).renumbered(rank)
        return talk.renumbered(rank), [whole]

    @property
    def given(self) -> Array:
        """By name, the number of deliveries; where they are not kept."""
        return np.pad(self._given, (0, len(self.words.names) - len(self._given)))

    def _count(self, nodes: Array) -> None:
        counts = np.bincount(nodes, minlength=len(self.words.names))
        counts[: len(self._given)] += self._given
        self._given = counts


def deliveries_of(rows: Rows, words: Words) -> Array:
    """Where they stand."""
    return np.flatnonzero(rows.kind == words.kinds.find(kinds.DELIVER))


def _first_seen(rows: Rows, deliveries: Array, words: Words) -> Rows:
    """The first delivery of each client, and the first after each of its crashes, in one row group."""
    ends = np.flatnonzero(np.isin(rows.kind, words.kinds.find_all((kinds.CRASH, kinds.LEAVE))))
    places = np.arange(len(rows))
    lives = Lives(len(words.names), rows.node[ends], ends, len(rows))
    first = first_places(lives.of(rows.node[deliveries], places[deliveries]), lives.count)
    return rows.take(deliveries[np.sort(first[first >= 0])], "node", "row")
