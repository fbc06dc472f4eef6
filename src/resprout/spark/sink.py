"""The writers, as Spark asks for them: each task records its rows, publishes them, and waits until they are safe.

To the network all attempts at one task are the same life of the same publisher: its name says the query and the
partition, its life the batch, and each row has its number. Brokers drop duplicates, wherever an attempt that died has
got to. Brokers forget at some time; the ledger does not.

The bundles follow from the rows and their order alone (`bundles_of`). Publishing the same rows again makes the same
bundles, so brokers recognise them.

Spark does not tell a streaming writer which batch a task is of; the properties of the task do. When a batch commits
there is nothing left to do, but to delete the ledger of batches long before.
"""

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from resprout.core.guarantee import Guarantee
from resprout.core.limits import Attributes
from resprout.edge.client.options import ClientOptions
from resprout.spark.ledger import FOLDER, LedgerEntry, clear, identity, ledger_folder
from resprout.spark.options import AccessOptions, SinkError, SinkOptions, sink_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log: Final = logging.getLogger("resprout.spark")

BUNDLE_BYTES: Final = 128 << 10
"""Payloads of one bundle, unless one is larger."""

_TEXTS: Final = ("string", "binary")
_VALUES: Final = ("string", "tinyint", "smallint", "int", "bigint", "float", "double", "boolean")
_COLUMNS: Final = ("value", "key", "keys", "topic", "guarantee", "headers", "attributes")

_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"

PAUSE_S: Final = 0.5
"""Between two attempts."""
CONNECT_S: Final = 10.0
PREFIX: Final = "spark"
DIGITS: Final = 12
"""Of the query, in the names of its publishers."""


class RowBundle(msgspec.Struct):
    """Rows that follow each other and go to the same place."""

    topic: str
    guarantee: Guarantee
    keys: tuple[str, ...]
    payloads: list[bytes]
    attributes: list[Attributes] | None


def check_columns(schema: "StructType", options: SinkOptions) -> None:
    """UsageError for a table that cannot be published."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if unused := [name for name in kinds if name not in _COLUMNS]:
        _log.warning("columns that are not published: %s; published are %s", ", ".join(unused), ", ".join(_COLUMNS))
    if "value" not in kinds:
        raise UsageError("the column value is needed")
    if "topic" not in kinds and options.topic is None:
        raise UsageError("a column topic is needed, or the option topic")
    for one, other in (("key", "keys"), ("headers", "attributes")):
        if one in kinds and other in kinds:
            raise UsageError(f"the columns {one} and {other} say the same; use one")
    wanted: dict[str, Sequence[str]] = {
        "value": _TEXTS,
        "key": _TEXTS,
        "topic": ("string",),
        "guarantee": ("string",),
        "keys": ("array<string>",),
        "headers": [f"array<struct<key:string,value:{kind}>>" for kind in _TEXTS],
    }
    for name, allowed in wanted.items():
        if name in kinds and kinds[name] not in allowed:
            raise UsageError(f"the column {name} is {kinds[name]}, and should be {' or '.join(allowed)}")
    if "attributes" in kinds:
        _check_attributes(schema["attributes"].dataType)


def _check_attributes(kind: Any) -> None:
    values: list[Any] = [field.dataType for field in getattr(kind, "fields", ())]
    if not values and hasattr(kind, "valueType") and kind.keyType.simpleString() == "string":
        values = [kind.valueType]
    if not values or any(value.simpleString() not in _VALUES for value in values):
        raise UsageError(
            f"the column attributes is {kind.simpleString()}, and should be a map<string,...> or a struct of texts, "
            "numbers and booleans"
        )


def bundles_of(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> Iterator[RowBundle]:
    bundle: RowBundle | None = None
    size = 0
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in _COLUMNS}
        payloads = _bytes(columns["value"])
        topics = columns.get("topic") or [None] * batch.num_rows
        guarantees = _guarantees(columns, batch.num_rows, options.guarantee)
        keys = _keys(columns, batch.num_rows)
        attributes = _attributes(columns, batch.num_rows)
        for place in _in_turn(topics, keys, guarantees):
            payload = payloads[place]
            topic = topics[place] if topics[place] is not None else options.topic
            if topic is None:
                raise UsageError(f"a row has no topic, and there is no option topic: value {payload[:60]!r}")
            guarantee = guarantees[place]
            if (
                bundle is None
                or topic != bundle.topic
                or guarantee != bundle.guarantee
                or keys[place] != bundle.keys
                or len(bundle.payloads) == limits.BUNDLE_MESSAGES
                or size + len(payload) > BUNDLE_BYTES
            ):
                if bundle is not None:
                    yield bundle
                bundle = RowBundle(topic, guarantee, keys[place], [], [] if attributes is not None else None)
                size = 0
            bundle.payloads.append(payload)
            size += len(payload)
            if attributes is not None and bundle.attributes is not None:
                bundle.attributes.append(attributes[place])
                size += _ATTRIBUTE_BYTES * len(attributes[place])
    if bundle is not None:
        yield bundle


def _in_turn(
    topics: Sequence[str | None], keys: Sequence[tuple[str, ...]], guarantees: Sequence[Guarantee]
) -> Sequence[int]:
    """Return the places of rows in the order in which they are published. `eventual` promises no order, so rows of one
    topic with the same keys share bundles; with any other guarantee the rows keep their order."""
    if any(guarantee is not Guarantee.EVENTUAL for guarantee in guarantees):
        return range(len(guarantees))
    return sorted(range(len(guarantees)), key=lambda place: (topics[place] or "", keys[place]))


_ATTRIBUTE_BYTES: Final = 64
"""What an attribute counts, on the safe side of what it usually takes; only bundles depend on it."""


def _bytes(values: list[Any]) -> list[bytes]:
    return [value if type(value) is bytes else b"" if value is None else str(value).encode() for value in values]


def _keys(columns: dict[str, list[Any]], count: int) -> list[tuple[str, ...]]:
    if "keys" in columns:
        return [tuple(keys) if keys else () for keys in columns["keys"]]
    if "key" in columns:
        return [() if key is None else (key if isinstance(key, str) else _key_text(key),) for key in columns["key"]]
    return [()] * count


def _key_text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise SinkError(
            f"the key {key[:60]!r} is no text in UTF-8: keys are texts; encode it, such as with hex()"
        ) from None


def _guarantees(columns: dict[str, list[Any]], count: int, usual: Guarantee) -> list[Guarantee]:
    if "guarantee" not in columns:
        return [usual] * count
    known = {word: Guarantee.parse(word) if word is not None else usual for word in dict.fromkeys(columns["guarantee"])}
    return [known[word] for word in columns["guarantee"]]


def _attributes(columns: dict[str, list[Any]], count: int) -> list[Attributes] | None:
    if "attributes" in columns:
        pairs = (row.items() if isinstance(row, dict) else row or () for row in columns["attributes"])
        return [{name: value for name, value in row if value is not None} for row in pairs]
    if "headers" in columns:
        return [{one["key"]: _text(one["value"]) for one in row or ()} for row in columns["headers"]]
    return None


def _text(value: bytes | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else value.decode()


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
    def epoch(self) -> int:
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
                login=access.login, epoch=task.epoch, options=ClientOptions(same_bundles=True),
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
            if not error.retryable:
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
    """What a task has to say: how many rows it has published, and of which query."""

    def __init__(self, rows: int, query: str = "") -> None:
        self.rows = rows
        self.query = query


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
        return PublishedRows(_write(task, self._options, self._folder / query, iterator), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Clear the ledger of this query. Others may share the folder, and their batches have other numbers."""
        for query in {message.query: None for message in messages if isinstance(message, PublishedRows)}:
            clear(self._folder / query, batchId)


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
        return PublishedRows(_write(task, self._options, self._folder, iterator))


def _write(task: TaskIdentity, options: SinkOptions, folder: Path | None, iterator: Iterator[pa.RecordBatch]) -> int:
    """Publish the rows of a task, unless the ledger says that they are published, and return how many there are."""
    if folder is None:
        batches = list(iterator)
        rows = sum(int(batch.num_rows) for batch in batches)
        if rows:
            publish(task, options.access, partial(bundles_of, batches, options))
        return rows
    entry = LedgerEntry(folder, task.batch, task.partition)
    rows = entry.put_down(iterator)
    if rows and not entry.is_done:
        publish(task, options.access, lambda: bundles_of(entry.rows(), options))
        entry.done()
    return rows
