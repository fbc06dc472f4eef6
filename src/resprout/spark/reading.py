"""A range of a journal as Arrow batches, in a task."""

import logging
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from resprout.edge.messages import EventRead
from resprout.spark.columns import ColumnMaker
from resprout.spark.connection import brokers_of
from resprout.spark.journal import JournalView, must_not_lose
from resprout.spark.options import SourceOptions
from resprout.spark.planning import JournalRange

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 4 << 20

_log: Final = logging.getLogger("resprout.spark")


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
