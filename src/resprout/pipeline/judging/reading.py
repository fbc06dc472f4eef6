"""Part files of a run as `Rows`, read without making a Python object per row.

Parquet keeps texts in dictionaries, and so they stay: only distinct texts are looked up. Only columns that the checks
look at are read.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from resprout.pipeline.judging.arrays import NULL, Array
from resprout.pipeline.judging.columns import ListColumn, Rows, UnreadableError, Vocabulary, Words
from resprout.pipeline.judging.fingerprint import Fingerprint
from resprout.pipeline.places import TracePart
from resprout.pipeline.stores import source_of

_TEXTS: Final = ("node", "kind", "publisher", "stream", "topic", "guarantee", "receipt", "filter", "where", "detail")
_NUMBERS: Final = ("time_us", "incarnation", "seq", "position", "tseq")
_INSIDE: Final = ("keys.list.element", "attributes.key_value.key", "attributes.key_value.value")
_CODED: Final = [*_TEXTS, *_INSIDE]
_COLUMNS: Final = [*_TEXTS, *_NUMBERS, "keys", "attributes"]


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
