"""The writers, as Spark asks for them: each task puts its rows down, publishes them, and waits until they are safe.

Spark does not tell a streaming writer which batch a task is of; the properties of the task do. There is nothing left to
do when a batch commits, but to clear away what is known of those long before.
"""

import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from resprout.core.errors import UsageError
from resprout.spark.errors import SinkError
from resprout.spark.ledger import FOLDER, LedgerEntry, clear, identity, ledger_folder
from resprout.spark.options import SinkOptions, sink_options
from resprout.spark.publishing import PREFIX, TaskIdentity, publish
from resprout.spark.rows import bundles_of, check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"


class PublishedRows(WriterCommitMessage):
    """What a task has to say."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class ResproutStreamWriter(DataSourceStreamArrowWriter):
    """`writeStream`. In the output mode `complete` (`overwrite`) every batch brings the whole table, which is published
    again: subscribers take the latest."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:
        self._options = sink_options(options)
        check_columns(schema, self._options)
        place = self._options.ledger or options.get("checkpointLocation")
        if not place:
            raise UsageError("the option checkpointLocation is needed, or ledger: a folder that all tasks see")
        self._folder = ledger_folder(place) / FOLDER

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PublishedRows:
        context = TaskContext.get()
        assert context is not None, "Spark runs this in a task"
        batch, query = context.getLocalProperty(_BATCH), context.getLocalProperty(_QUERY)
        if batch is None or query is None:
            raise SinkError("Spark does not say which batch of which query this is")
        prefix = self._options.publisher or PREFIX
        task = TaskIdentity(prefix, query, int(batch), context.partitionId())
        return _write(task, self._options, self._folder / query, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for folder in self._folder.glob("*"):
            clear(folder, batchId)


class ResproutWriter(DataSourceArrowWriter):
    """`write`. Each call is a work of its own, unless both `publisher` and `ledger` are given, which name it."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:
        self._options = sink_options(options)
        check_columns(schema, self._options)
        if overwrite:
            raise UsageError("what was published cannot be replaced: use the mode append")
        self._work = str(uuid.uuid4())
        self._folder: Path | None = None
        if self._options.ledger is not None:
            if self._options.publisher is None:
                raise UsageError("ledger: give the work a name, too, with the option publisher")
            self._folder = ledger_folder(self._options.ledger) / FOLDER / self._options.publisher
            self._work = identity(self._folder)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PublishedRows:
        context = TaskContext.get()
        assert context is not None, "Spark runs this in a task"
        task = TaskIdentity(self._options.publisher or PREFIX, self._work, 0, context.partitionId())
        return _write(task, self._options, self._folder, iterator)


def _write(
    task: TaskIdentity, options: SinkOptions, folder: Path | None, iterator: Iterator[pa.RecordBatch]
) -> PublishedRows:
    if folder is None:
        batches = list(iterator)
        rows = sum(batch.num_rows for batch in batches)
        if rows:
            publish(task, options.access, partial(bundles_of, batches, options))
        return PublishedRows(rows)
    entry = LedgerEntry(folder, task.batch, task.partition)
    rows = entry.put_down(iterator)
    if rows and not entry.is_done:
        publish(task, options.access, lambda: bundles_of(entry.rows(), options))
        entry.done()
    return PublishedRows(rows)
