"""Rows to an Arrow table and back, column by column, and to Parquet files. Only this module of `trace` needs Arrow.

Arrow boxes every cell when it is asked for a Python list, which is most of the cost of reading. Texts are therefore
looked up in a dictionary of the distinct ones (few, and then shared in memory), and numbers are read straight from
their buffer.
"""

from collections.abc import Sequence
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resprout.trace.schema import COLUMNS, Row, TraceError, reason_of

ARROW_SCHEMA: Final = pa.schema(
    [
        pa.field("time_us", pa.int64(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("publisher", pa.string()),
        pa.field("incarnation", pa.int32()),
        pa.field("stream", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("keys", pa.list_(pa.string())),
        pa.field("guarantee", pa.string()),
        pa.field("attributes", pa.map_(pa.string(), pa.string())),
        pa.field("position", pa.int64()),
        pa.field("receipt", pa.string()),
        pa.field("filter", pa.string()),
        pa.field("where", pa.string()),
        pa.field("tseq", pa.int64()),
        pa.field("hops", pa.int32()),
        pa.field("metadata_bytes", pa.int32()),
        pa.field("payload_bytes", pa.int32()),
        pa.field("detail", pa.string()),
    ]
)


def table_of(rows: Sequence[Row]) -> Any:
    """A `pyarrow.Table`. Raises TraceError when a value does not fit its column."""
    arrays = []
    for field in ARROW_SCHEMA:
        cells = list(map(attrgetter(field.name), rows))
        if field.name == "attributes":
            cells = [None if cell is None else sorted(cell.items()) for cell in cells]
        try:
            arrays.append(pa.array(cells, type=field.type))
        except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError, AttributeError) as error:
            raise TraceError(f"column {field.name} cannot be written: {' '.join(str(error).split())}") from None
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)


def rows_of(table: Any) -> list[Row]:
    """What `table_of` was given. Raises TraceError when the columns are not those of a trace."""
    _check_columns(table)
    n = table.num_rows
    cells = [_cells(table.column(name).combine_chunks(), n) for name in COLUMNS]
    for name, column in zip(COLUMNS[:3], cells, strict=False):
        if None in column:
            raise TraceError(f"column {name} is null in row {column.index(None)}")
    _check_inside(table)
    return [*starmap(Row, zip(*cells, strict=True))]  # by position: with keywords it takes five times as long


def write_rows(rows: Sequence[Row], path: Path, checksums: bool = False) -> None:
    """Write a Parquet file, also one without rows. Raises TraceError when a value does not fit, or OSError."""
    try:
        # Absolute: Arrow takes what stands before a colon for the kind of address.
        pq.write_table(table_of(rows), path.absolute(), compression="zstd", write_page_checksum=checksums)
    except pa.ArrowException as error:
        raise OSError(str(error)) from None


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a Parquet file. Raises TraceError when it is damaged, or not a part of a trace."""
    try:
        table = pq.read_table(path.absolute(), use_threads=False, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"damaged or not Parquet: {reason_of(error)}") from None
    try:
        return rows_of(table)
    except (UnicodeDecodeError, pa.ArrowException, IndexError) as error:  # sound pages with senseless texts in them
        raise TraceError(f"damaged or not Parquet: {reason_of(error)}") from None


def _check_columns(table: Any) -> None:
    for field in ARROW_SCHEMA:
        index = table.schema.get_field_index(field.name)
        if index < 0:
            raise TraceError(f"column {field.name} is missing or there twice")
        if (found := table.schema.field(index).type) != field.type:
            raise TraceError(f"column {field.name} is {found}, not {field.type}")


def _check_inside(table: Any) -> None:
    for name in ("keys", "attributes"):
        for chunk in table.column(name).chunks:
            inside = (chunk.values,) if name == "keys" else (chunk.keys, chunk.items)
            if any(part.null_count for part in inside):
                raise TraceError(f"column {name} holds a null")


def _cells(array: Any, n: int) -> list[Any]:
    if isinstance(array, pa.ChunkedArray):  # an empty table has no chunk to combine
        array = pa.array([], type=array.type) if array.num_chunks == 0 else pa.concat_arrays(array.chunks)
    if array.null_count == n:
        return [None] * n
    if pa.types.is_integer(array.type):
        return _integers(array)
    if pa.types.is_string(array.type):
        return _texts(array)
    if pa.types.is_map(array.type):
        return _maps(array)
    return _lists(array)


def _integers(array: Any) -> list[int | None]:
    if not array.null_count:
        return [*_buffer(array)]
    numbers = _buffer(array.fill_null(0))
    valid = _buffer(pc.cast(array.is_valid(), pa.int32()))
    return [number if there else None for number, there in zip(numbers, valid, strict=True)]


def _texts(array: Any) -> list[str | None]:
    encoded = array.dictionary_encode()
    distinct: list[str | None] = encoded.dictionary.to_pylist()
    places = encoded.indices
    if places.null_count:
        places = places.fill_null(len(distinct))
        distinct.append(None)
    return [distinct[place] for place in _buffer(places)]


def _lists(array: Any) -> list[tuple[str, ...] | None]:
    """Equal lists become one tuple: key sets repeat."""
    items = _texts(array.values)
    shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    cells: list[tuple[str, ...] | None] = []
    for begin, end, there in _extents(array):
        cell = tuple(items[begin:end])
        cells.append(shared.setdefault(cell, cell) if there else None)
    return cells


def _maps(array: Any) -> list[dict[str, str] | None]:
    names, texts = _texts(array.keys), _texts(array.items)
    return [
        dict(zip(names[begin:end], texts[begin:end], strict=True)) if there else None  # type: ignore[arg-type]
        for begin, end, there in _extents(array)
    ]


def _extents(array: Any) -> "zip[tuple[int, int, int]]":
    offsets = _buffer(array.offsets)
    valid = _buffer(pc.cast(array.is_valid(), pa.int32()))
    return zip(offsets[:-1], offsets[1:], valid, strict=True)


def _buffer(array: Any) -> list[int]:
    """The numbers of an Arrow array without nulls."""
    if len(array) == 0:
        return []
    raw = memoryview(array.buffers()[1])
    numbers = raw.cast("q") if array.type.bit_width == 64 else raw.cast("i")
    return numbers[array.offset : array.offset + len(array)].tolist()
