"""How far a query gets: which positions a micro-batch, or a batch, is made of; and a range of them as Arrow batches.

A query reads one journal, that of the first server which keeps events when it begins; the offsets say which one. What
its broker has not kept cannot be read: what retention took before it was read, what was published between two lives of
that broker, and what that broker left out while its disk was full. A query with `failOnDataLoss` ends there, and says
what is missing.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from resprout.client.asking import Offset
from resprout.edge.messages import EventRead
from resprout.spark.columns import ColumnMaker
from resprout.spark.connection import brokers_of
from resprout.spark.journal import JournalExtent, JournalView, gone, must_not_lose
from resprout.spark.offsets import JournalOffset, JournalRange, from_json, ranges_between, split, to_json
from resprout.spark.options import SourceError, SourceOptions

IDLE_S: Final = 60.0
"""After so long a query moves on over what does not match."""

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 4 << 20

_log: Final = logging.getLogger("resprout.spark")


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
        held = view.held(reached.journal)
        self.latest = to_json(JournalOffset(held.journal, ((reached.life, held.end),)))
        end = held.end
        if self._stops is not None:
            end = min(end, self._stops.setdefault(held.journal, held.end))
        begin = self._checked(reached.position, held)
        if begin < reached.position:
            return to_json(JournalOffset(held.journal, ((reached.life, begin),)))
        if end <= begin:
            return start
        match = self._next_match(view, held.journal, begin, end)
        if match is None:
            return start
        if most is not None:
            end = min(end, match + most)
        segments = view.lives(held.journal, begin, end)
        view.check_gaps(held.journal, begin, segments, when_lost(self._options))
        return to_json(reached.moved(segments))

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
    return JournalView(brokers_of(options.access), options.filters, options.where)


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
    maker = ColumnMaker(schema)
    gathered: list[EventRead] = []
    rows = size = 0
    for page in view_of(options).pages(wanted, when_lost(options)):
        for event in page:
            if is_wanted is not None and not is_wanted(event):
                continue
            gathered.append(event)
            rows += event.bundle.count
            size += event.bundle.cost
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield maker.batch(gathered)
                gathered, rows, size = [], 0, 0
    if gathered:
        yield maker.batch(gathered)
