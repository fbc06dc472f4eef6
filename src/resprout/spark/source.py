"""The format `resprout`, as Spark asks for it: readers that plan in one process, and read in the tasks.

A stream reader lives as long as the query, in a process beside the driver; what it plans, other processes read, each
with a copy of it. Everything that must outlive it is in the offsets, which Spark keeps in the checkpoint.

A batch query pushes down its filters on the topic, which then is all that a broker is asked for, and on the publisher,
for which whole bundles are passed over.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from resprout.edge.messages import EventRead
from resprout.filters.predicate import is_plain, topic_matches
from resprout.spark.options import JournalRange, SourceOptions, source_options
from resprout.spark.partitions import SourceProgress, source_ranges
from resprout.spark.reading import batches, check_schema, default_schema
from resprout.spark.sink import ResproutStreamWriter, ResproutWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

TOPICS_MAX: Final = 64
"""That a broker is asked for by name."""


class ResproutSource(DataSource):
    """`format("resprout")`."""

    @classmethod
    def name(cls) -> str:
        return "resprout"

    def schema(self) -> str:
        return default_schema(self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: "StructType") -> "ResproutReader":
        return ResproutReader(source_options(self.options, is_stream=False), schema)

    def streamReader(self, schema: "StructType") -> "ResproutStreamReader":  # noqa: N802
        return ResproutStreamReader(source_options(self.options, is_stream=True), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceArrowWriter:
        return ResproutWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return ResproutStreamWriter(self.options, schema, overwrite)


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: JournalRange) -> None:
        super().__init__(msgspec.structs.astuple(wanted))

    @property
    def range(self) -> JournalRange:
        return JournalRange(*self.value)


class ResproutReader(DataSourceReader):
    """A part of the past."""

    def __init__(self, options: SourceOptions, schema: "StructType") -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema
        self._pushed = Pushed()

    def pushFilters(self, filters: "list[Filter]") -> "Iterator[Filter]":  # noqa: N802
        yield from self._pushed.take(filters)
        self._options = msgspec.structs.replace(self._options, filters=self._pushed.filters(self._options.filters))

    def partitions(self) -> Sequence[InputPartition]:
        return [RangePartition(each) for each in source_ranges(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, when there is nothing to read
            return iter(())
        return batches(self._options, partition.range, _arrow(self._schema), self._pushed.wants)


class ResproutStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Everything from a place on."""

    def __init__(self, options: SourceOptions, schema: "StructType") -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema
        self._progress = SourceProgress(options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._progress.begin()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.positions_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return self._progress.advance(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._progress.latest

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._progress.stop_at_present()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [RangePartition(each) for each in self._progress.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return batches(self._options, partition.range, _arrow(self._schema))


def _arrow(schema: "StructType") -> pa.Schema:
    """With the very types that Spark compares with."""
    return to_arrow_schema(schema, timezone="UTC")


class Pushed(msgspec.Struct):
    """What is asked for; None: anything."""

    topics: frozenset[str] | None = None
    publishers: frozenset[str] | None = None

    def take(self, filters: "Iterable[Filter]") -> "Iterator[Filter]":
        """Those that are left to Spark."""
        from pyspark.sql.datasource import EqualTo, In

        for each in filters:
            name = getattr(each, "attribute", None)
            values = None
            if isinstance(each, EqualTo):
                values = frozenset((each.value,))
            elif isinstance(each, In):
                values = frozenset(each.value)
            if values is None or not all(isinstance(value, str) for value in values):
                yield each
            elif name == ("topic",):
                self.topics = values if self.topics is None else self.topics & values
            elif name == ("publisher",):
                self.publishers = values if self.publishers is None else self.publishers & values
            else:
                yield each

    def filters(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Instead of the filters that the user gave: topics by name, where that is less. A publication on another topic
        may match by one of its keys, so a topic that no filter matches may be in what they bring all the same."""
        if not self.topics or len(self.topics) > TOPICS_MAX:
            return wanted
        for topic in self.topics:
            if not is_plain(topic) or not any(topic_matches(one, topic) for one in wanted):
                return wanted
        return tuple(sorted(self.topics))

    def wants(self, event: EventRead) -> bool:
        bundle = event.bundle
        return (self.topics is None or bundle.topic in self.topics) and (
            self.publishers is None or bundle.publisher in self.publishers
        )
