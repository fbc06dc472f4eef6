"""How far a query gets: the positions of a micro-batch or a batch, and a range of them as Arrow batches.

A query reads one journal, that of the first server which keeps events when it begins; the offsets say which one. It
cannot read what the broker has not kept: what retention deleted before it was read, what was published between two
lives of that broker, and what that broker left out while its disk was full. A query with `failOnDataLoss` ends there,
and says what is missing.

The columns are Kafka's where they fit (`ColumnMaker`). What all messages of a bundle share is repeated in a column,
never copied one by one. A reader with a schema of its own gets only the columns that it names.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from resprout.client.past_events import Offset
from resprout.core.bundle import unpack_attributes, unpack_payloads
from resprout.core.errors import UsageError
from resprout.core.limits import AttributeValue
from resprout.core.partitions import split_name
from resprout.edge.messages import EventRead
from resprout.spark.journal import JournalExtent, JournalView, brokers_of, gone, is_log, must_not_lose
from resprout.spark.options import (
    INDEX_BITS,
    JournalOffset,
    JournalRange,
    SourceError,
    SourceOptions,
    from_json,
    ranges_between,
    split,
    to_json,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS: Final = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
    "timestamp": "timestamp", "publisher": "string", "seq": "bigint", "guarantee": "string",
}  # fmt: skip
HEADERS: Final = {"headers": "array<struct<key:string,value:binary>>"}
"""With `includeHeaders`."""
OTHERS: Final = {
    "keys": "array<string>", "attributes": "map<string,string>", "epoch": "bigint", "stream": "string",
    "position": "bigint", "index": "int", "timestampType": "int",
}  # fmt: skip
"""For those who ask for them with a schema: `publisher`, `epoch`, `stream` and `seq` are what makes a message the
same wherever it is seen."""

LOG_APPEND_TIME: Final = 1
"""Kafka's word for times at which a broker kept a message."""

IDLE_S: Final = 60.0
"""After so long a query moves on over what does not match."""

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 4 << 20

_log: Final = logging.getLogger("resprout.spark")


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

    def __init__(self, schema: pa.Schema, in_log: bool = False, partition: int = 0) -> None:
        """`in_log`: whether each message has an offset of its own. `partition`: the one of the log."""
        self._schema = schema
        self._in_log = in_log
        self._partition = partition
        self._makers = [_MAKERS[name] for name in schema.names]

    def batch(self, events: Sequence[EventRead]) -> pa.RecordBatch:
        rows = _Rows(events, self._in_log, self._partition)
        arrays = [maker(rows, field.type) for maker, field in zip(self._makers, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Rows:
    """Some bundles, message by message."""

    def __init__(self, events: Sequence[EventRead], in_log: bool, partition: int) -> None:
        self.events = events
        self.in_log = in_log
        self.partition = partition
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
    if rows.in_log:
        return _position(rows, kind)
    return pa.array(rows.number(event.position << INDEX_BITS for event in rows.events) | rows.places, kind)


def _position(rows: _Rows, kind: pa.DataType) -> pa.Array:
    positions = rows.number(event.position for event in rows.events)
    return pa.array(positions + rows.places if rows.in_log else positions, kind)


def _partition(rows: _Rows, kind: pa.DataType) -> pa.Array:
    """Return the column `partition`: that of a log, or the life of the broker for a journal."""
    return pa.array(rows.number(rows.partition if rows.in_log else event.life for event in rows.events), kind)


def _index(rows: _Rows, kind: pa.DataType) -> pa.Array:
    return pa.array(rows.places * 0 if rows.in_log else rows.places, kind)


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
    "partition": _partition,
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
    "epoch": lambda rows, kind: pa.array(rows.number(event.bundle.incarnation for event in rows.events), kind),
    "stream": lambda rows, kind: rows.same((event.bundle.stream for event in rows.events), kind),
    "position": _position,
    "index": _index,
    "timestampType": lambda rows, kind: pa.array(np.full(rows.total, LOG_APPEND_TIME), kind),
}


class _Barren(msgspec.Struct, frozen=True):
    """Where nothing matched."""

    journal: str
    start: int
    end: int
    since_s: float


class StreamProgress:
    """Of a stream."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._stops: dict[str, int] | None = None
        """By journal: the position at which a query ends that takes what is available now."""
        self._barren: _Barren | None = None
        self._short: tuple[int, float] | None = None
        """Where a micro-batch would begin for which there are too few positions, and since when."""
        self.latest: dict[str, Any] | None = None
        """What there was when it was last looked."""

    def begin(self) -> dict[str, Any]:
        """Where a new query is."""
        place = self._options.start
        view = view_of(self._options)
        held = view.held(place.journal if isinstance(place, Offset) else "")
        position = view.position_of(place, held, when_lost(self._options))
        if isinstance(place, Offset):
            position = self._checked(position, held)
        return to_json(JournalOffset(held.journal, ((_life_of_end(view, held), position),)))

    def advance(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """The end of the micro-batch that begins at `start`: no more than so many positions."""
        reached = from_json(start)
        view = view_of(self._options)
        held = view.held(reached.journal, reached.position)
        self.latest = to_json(JournalOffset(held.journal, ((reached.life, held.end),)))
        end = held.end
        if self._stops is not None:
            end = min(end, self._stops.setdefault(held.journal, held.end))
        begin = self._checked(reached.position, held)
        if begin < reached.position:
            return to_json(JournalOffset(held.journal, ((reached.life, begin),)))
        if end <= begin or self._is_too_short(begin, end):
            return start
        match = self._next_match(view, held.journal, begin, end)
        if match is None:
            return start
        if most is not None:
            end = min(end, match + most)
        segments = view.lives(held.journal, begin, end)
        if is_log(held.journal) and reached.life not in (0, segments[0][0]):
            when_lost(self._options)(f"{held.journal} was begun again, with other messages at the same offsets")
        view.check_gaps(held.journal, begin, segments, when_lost(self._options))
        return to_json(reached.moved(segments))

    def _is_too_short(self, begin: int, end: int) -> bool:
        """Whether `minOffsetsPerTrigger` is still waited for."""
        if end - begin >= self._options.positions_min or self._stops is not None:
            self._short = None
            return False
        if self._short is None or self._short[0] != begin:
            self._short = (begin, time.monotonic())
        return time.monotonic() - self._short[1] < self._options.delay_s

    def _next_match(self, view: JournalView, journal: str, begin: int, end: int) -> int | None:
        """Where the next rows are. A batch without rows is none: a query that publishes to where it reads would never
        come to rest. From time to time there is one all the same, so that retention does not pass a query for which
        nothing comes."""
        barren = self._barren
        if barren is None or (barren.journal, barren.start) != (journal, begin):
            barren = _Barren(journal, begin, begin, time.monotonic())
        match = view.first_match(journal, barren.end, end)
        if match is None and time.monotonic() - barren.since_s >= IDLE_S:
            match = end
        self._barren = msgspec.structs.replace(barren, end=end) if match is None else None
        return match

    def stop_at_present(self) -> None:
        """Nothing that comes later is read any more. A query that was restarted may read another journal than a new one
        would: then that one's end is looked up as soon as it is known."""
        place = self._options.start
        held = view_of(self._options).held(place.journal if isinstance(place, Offset) else "")
        self._stops = {held.journal: held.end}

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[JournalRange]:
        return split(ranges_between(from_json(start), from_json(end)), self._options.partitions_min)

    def _checked(self, position: int, held: JournalExtent) -> int:
        """Where to go on: there, if that is kept."""
        lost = when_lost(self._options)
        if position < held.first:
            lost(gone(held.journal, position, held.first, held))
            return held.first
        if position > held.end:
            lost(f"{held.journal} ends at position {held.end}, and {position} had been reached: its end was lost")
            return held.end
        return position


def batch_ranges(options: SourceOptions) -> list[JournalRange]:
    """What a batch reads."""
    places = (options.start, options.end)
    named = {place.journal for place in places if isinstance(place, Offset)}
    if len(named) > 1:
        raise SourceError(f"startingOffsets and endingOffsets are of two journals: {', '.join(sorted(named))}")
    view = view_of(options)
    held = view.held(next(iter(named), ""))
    start, end = (view.position_of(place, held, when_lost(options)) for place in places)
    if options.end == "latest":
        end = held.end
    if start > end:
        raise SourceError(f"startingOffsets lies at {start} of {held.journal}, behind its end or endingOffsets, {end}")
    if start < held.first:
        when_lost(options)(gone(held.journal, start, min(end, held.first), held))
        start = held.first
    if end > held.end:
        when_lost(options)(f"{held.journal} ends at position {held.end}, before {end}")
        end = held.end
    segments = view.lives(held.journal, start, end)
    view.check_gaps(held.journal, start, segments, when_lost(options))
    reached = JournalOffset(held.journal, ((0, start),))
    return split(ranges_between(reached, reached.moved(segments)), options.partitions_min) if segments else []


def _life_of_end(view: JournalView, held: JournalExtent) -> int:
    return view.life_at(held.journal, held.end - 1) if held.end > held.first else 0


def view_of(options: SourceOptions) -> JournalView:
    """Of this process."""
    return JournalView(brokers_of(options.access), options.filters, options.where, options.journal)


def when_lost(options: SourceOptions) -> Callable[[str], None]:
    """What is to be done when something is gone: fail, or say so and go on."""
    return must_not_lose if options.fails_on_loss else lambda reason: _log.warning("%s; going on without", reason)


def batches(
    options: SourceOptions,
    wanted: JournalRange,
    schema: pa.Schema,
    is_wanted: Callable[[EventRead], bool] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Small pages are put together: each batch costs Spark something."""
    maker = ColumnMaker(schema, is_log(wanted.journal), split_name(wanted.journal)[1] or 0)
    pattern = re.compile(options.pattern) if options.pattern is not None else None
    gathered: list[EventRead] = []
    rows = size = 0
    for page in view_of(options).pages(wanted, when_lost(options)):
        for event in page:
            if is_wanted is not None and not is_wanted(event):
                continue
            if pattern is not None and not pattern.fullmatch(event.bundle.topic):
                continue
            gathered.append(event)
            rows += event.bundle.count
            size += event.bundle.cost
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield maker.batch(gathered)
                gathered, rows, size = [], 0, 0
    if gathered:
        yield maker.batch(gathered)
