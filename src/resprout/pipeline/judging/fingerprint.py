"""The digest of a run from its columns: the same as `trace.schema` takes over rows, without making rows.

Every cell becomes its MessagePack bytes, column by column; distinct texts are encoded once. The bytes of a row are
those of its cells one after the other, which Arrow joins, and SHA-256 runs over all of them.
"""

import functools
import hashlib
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resprout.pipeline.judging.arrays import Array
from resprout.trace.schema import COLUMNS

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
        return _texts(column)
    if pa.types.is_integer(column.type):
        return _integers(column)
    return _maps(column) if pa.types.is_map(column.type) else _lists(column)


def _texts(column: Any) -> Any:
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
    return _nested(column, _texts(column.values), 0x90, 0xDC)


def _maps(column: Any) -> Any:
    names, texts = _texts(column.keys), _texts(column.items)
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
