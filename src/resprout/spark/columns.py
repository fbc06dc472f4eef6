"""Bundles of the past as columns of a table: what all messages of a bundle share is repeated, never copied one by one.

The columns are Kafka's where they fit. A reader with a schema of its own has only what it asks for.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from resprout.core.bundle import unpack_attributes, unpack_payloads
from resprout.core.errors import UsageError
from resprout.core.names import AttributeValue
from resprout.edge.messages import EventRead
from resprout.spark.offsets import INDEX_BITS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS: Final = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
    "timestamp": "timestamp", "publisher": "string", "seq": "bigint", "guarantee": "string",
}  # fmt: skip
HEADERS: Final = {"headers": "array<struct<key:string,value:binary>>"}
"""With `includeHeaders`."""
OTHERS: Final = {
    "keys": "array<string>", "attributes": "map<string,string>", "incarnation": "bigint", "stream": "string",
    "position": "bigint", "index": "int",
}  # fmt: skip
"""For those who ask for them with a schema: `publisher`, `incarnation`, `stream` and `seq` are what makes a message the
same wherever it is seen."""


def default_schema(headers: bool) -> str:
    """As Spark writes schemas."""
    return ", ".join(f"`{name}` {kind}" for name, kind in (COLUMNS | (HEADERS if headers else {})).items())


def check_schema(schema: "StructType") -> None:
    """UsageError for a column that there is not, or that is of another type."""
    known = COLUMNS | HEADERS | OTHERS
    for field in schema.fields:
        if field.name not in known:
            raise UsageError(f"there is no column {field.name!r}; there are {', '.join(known)}")
        if field.dataType.simpleString() != known[field.name]:
            raise UsageError(f"the column {field.name} is {known[field.name]}, not {field.dataType.simpleString()}")


class ColumnMaker:
    """For tables with this schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._makers = [_MAKERS[name] for name in schema.names]

    def batch(self, events: Sequence[EventRead]) -> pa.RecordBatch:
        rows = _Rows(events)
        arrays = [maker(rows, field.type) for maker, field in zip(self._makers, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Rows:
    """Some bundles, message by message."""

    def __init__(self, events: Sequence[EventRead]) -> None:
        self.events = events
        self.counts = np.fromiter((event.bundle.count for event in events), np.int64, len(events))
        self.total = int(self.counts.sum())
        self.which = np.repeat(np.arange(len(events)), self.counts)
        """For each message: its bundle."""
        starts = np.cumsum(self.counts) - self.counts
        self.places = np.arange(self.total) - starts[self.which]
        """For each message: its place in its bundle, as that was published."""
        for number, event in enumerate(events):
            if event.offsets is not None:
                self.places[starts[number] : starts[number] + event.bundle.count] = event.offsets

    def same(self, values: Iterable[Any], kind: pa.DataType) -> pa.Array:
        """One value of each bundle, for all of its messages."""
        return pa.array(list(values), kind).take(pa.array(self.which))

    def number(self, values: Iterable[int]) -> "np.ndarray[Any, np.dtype[np.int64]]":
        return np.fromiter(values, np.int64, len(self.events))[self.which]

    def attributes(self) -> list[dict[str, AttributeValue]]:
        return list(chain.from_iterable(unpack_attributes(event.bundle) for event in self.events))


def _value(rows: _Rows, kind: pa.DataType) -> pa.Array:
    payloads: list[bytes] = []
    for event in rows.events:
        payloads += unpack_payloads(event.bundle)
    return pa.array(payloads, kind)


def _key(rows: _Rows, kind: pa.DataType) -> pa.Array:
    """The first one."""
    return rows.same((event.bundle.keys[0].encode() if event.bundle.keys else None for event in rows.events), kind)


def _offset(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.array(rows.number(event.position << INDEX_BITS for event in rows.events) | rows.places, kind)


def _seq(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.array(rows.number(event.bundle.first for event in rows.events) + rows.places, kind)


def _headers(rows: _Rows, kind: pa.DataType) -> pa.Array:
    if not any(event.bundle.attributes for event in rows.events):
        return pa.nulls(rows.total, kind)
    headers = [
        [{"key": name, "value": text_of(value).encode()} for name, value in row.items()] or None
        for row in rows.attributes()
    ]
    return pa.array(headers, kind)


def _attributes(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.array([[(name, text_of(value)) for name, value in row.items()] for row in rows.attributes()], kind)


def text_of(value: AttributeValue) -> str:
    """An attribute as a column has it; truth in the words of SQL."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_MAKERS: Final[dict[str, Callable[[_Rows, pa.DataType], pa.Array]]] = {
    "key": _key,
    "value": _value,
    "topic": lambda rows, kind: rows.same((event.bundle.topic for event in rows.events), kind),
    "partition": lambda rows, kind: pa.array(rows.number(event.life for event in rows.events), kind),
    "offset": _offset,
    "timestamp": lambda rows, kind: pa.array(rows.number(event.time_us for event in rows.events), pa.int64()).cast(
        kind
    ),
    "publisher": lambda rows, kind: rows.same((event.bundle.publisher for event in rows.events), kind),
    "seq": _seq,
    "guarantee": lambda rows, kind: rows.same((event.bundle.guarantee.label for event in rows.events), kind),
    "headers": _headers,
    "keys": lambda rows, kind: rows.same((event.bundle.keys for event in rows.events), kind),
    "attributes": _attributes,
    "incarnation": lambda rows, kind: pa.array(rows.number(event.bundle.incarnation for event in rows.events), kind),
    "stream": lambda rows, kind: rows.same((event.bundle.stream for event in rows.events), kind),
    "position": lambda rows, kind: pa.array(rows.number(event.position for event in rows.events), kind),
    "index": lambda rows, kind: pa.array(rows.places, kind),
}
