"""The writers, as Spark asks for them: each task puts its rows down, publishes them, and waits until they are safe.

To the network all attempts at one task are the same life of the same publisher: its name says the query and the
partition, its life the batch, and each row has its number. Brokers take nothing twice, wherever an attempt that died
has got to. What they cannot remember for ever, the ledger does.

Spark does not tell a streaming writer which batch a task is of; the properties of the task do. There is nothing left to
do when a batch commits, but to clear away what is known of those long before.
"""

import asyncio
import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ClientError, ConnectError, PublishError
from resprout.client.receipts import Receipt
from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.edge.client.options import ClientOptions
from resprout.spark.ledger import FOLDER, LedgerEntry, clear, identity, ledger_folder
from resprout.spark.options import AccessOptions, SinkError, SinkOptions, sink_options
from resprout.spark.rows import RowBundle, bundles_of, check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"

PAUSE_S: Final = 0.5
"""Between two attempts."""
CONNECT_S: Final = 10.0
PREFIX: Final = "spark"
DIGITS: Final = 12
"""Of the query, in the names of its publishers."""


class TaskIdentity(msgspec.Struct, frozen=True):
    """Which work it is, however often it is begun."""

    prefix: str
    query: str
    batch: int
    partition: int

    @property
    def publisher(self) -> str:
        digits = hashlib.sha256(self.query.encode()).hexdigest()[:DIGITS]
        name = f"{self.prefix}.{digits}.{self.partition}"
        if len(name.encode()) > limits.NAME_BYTES:
            raise UsageError(f"publisher: {name} is longer than {limits.NAME_BYTES} bytes")
        return name

    @property
    def life(self) -> int:
        return self.batch + 1


def publish(task: TaskIdentity, access: AccessOptions, bundles: Callable[[], Iterable[RowBundle]]) -> None:
    """Returns when all of it is safe. SinkError when that is not so after `timeout`, or when a row cannot be published
    at all."""
    asyncio.run(_publish(task, access, bundles))


async def _publish(task: TaskIdentity, access: AccessOptions, bundles: Callable[[], Iterable[RowBundle]]) -> None:
    who = f"batch {task.batch}, partition {task.partition}"
    deadline = time.monotonic() + access.timeout_s
    while True:
        try:
            client = await connect(
                access.servers, name=task.publisher, timeout=min(CONNECT_S, access.timeout_s), tls=access.tls,
                login=access.login, life=task.life, options=ClientOptions(same_bundles=True),
            )  # fmt: skip
            try:
                await _say(client, bundles(), access.timeout_s)
                return
            finally:
                await client.close()
        except PublishError as error:
            if error.definite:
                raise SinkError(f"{who} was refused: {error.reason}") from None
            trouble = str(error)
        except ConnectError as error:
            if error.hopeless:
                raise SinkError(f"{who} was not published: {error}") from None
            trouble = str(error)
        except (ClientError, TimeoutError) as error:
            trouble = str(error) or f"nothing became safe for {access.timeout_s:g} s"
        if time.monotonic() >= deadline:
            raise SinkError(f"{who} was not published: {trouble}; what was, is not published again") from None
        await asyncio.sleep(PAUSE_S)


async def _say(client: Client, bundles: Iterable[RowBundle], timeout_s: float) -> None:
    """TimeoutError when so long nothing became safe."""
    last: dict[str, Receipt] = {}
    for bundle in bundles:
        async with asyncio.timeout(timeout_s):
            receipt = await client.publish_bundle(
                bundle.topic, bundle.payloads, guarantee=bundle.guarantee, keys=bundle.keys,
                attributes=bundle.attributes,
            )  # fmt: skip
        last[receipt.id[2]] = receipt
    for receipt in last.values():
        async with asyncio.timeout(timeout_s):
            await receipt.safe()


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
