"""`spark.read` and `spark.readStream` over real brokers: every message once, where and when it was asked for."""

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import resprout
import resprout.spark
from tests.cli.processes import Running
from tests.patience import PATIENCE_S
from tests.spark.brokers import keeping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Place(msgspec.Struct):
    process: Running
    address: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Iterator[Place]:
    """One broker that keeps everything, with 60 messages of two publishers on three topics."""
    resprout.spark.register(spark)
    folder = tmp_path_factory.mktemp("events")
    with keeping("b0", folder, keep=("#", "$x/#")) as (process, address):
        publish(address, "p", 40)
        publish(address, "q", 20)
        yield Place(process, address)


def publish(address: str, name: str, count: int, topics: tuple[str, ...] = ("a/x", "a/y")) -> None:
    with resprout.sync.connect(address, name=name, timeout=PATIENCE_S) as client:
        for n in range(count):
            topic = topics[n % len(topics)]
            receipt = client.publish(topic, b"%s %d" % (name.encode(), n), keys=("k",), attributes={"n": n})
        receipt.delivered(timeout=PATIENCE_S)


def reading(spark: "SparkSession", place: Place, **options: Any) -> "DataFrame":
    words = {"servers": place.address, "subscribe": "a/#", **options}
    schema = words.pop("schema", None)
    reader = spark.read.format("resprout").options(**words)
    return (reader.schema(schema) if schema else reader).load()


def test_a_batch_has_every_message_once_with_the_columns_of_kafka(spark: "SparkSession", place: Place) -> None:
    frame = reading(spark, place, minPartitions=3, includeHeaders=True)
    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "publisher", "seq", "guarantee", "headers",
    ]  # fmt: skip
    rows = sorted(frame.collect(), key=lambda row: row["offset"])
    assert [bytes(row["value"]) for row in rows] == [b"p %d" % n for n in range(40)] + [b"q %d" % n for n in range(20)]
    assert len({(row["partition"], row["offset"]) for row in rows}) == 60
    first = rows[0]
    assert (bytes(first["key"]), first["topic"], first["publisher"], first["seq"]) == (b"k", "a/x", "p", 1)
    assert (
        first["guarantee"] == "causal"
        and first["headers"][0]["key"] == "n"
        and bytes(first["headers"][0]["value"]) == b"0"
    )
    assert frame.rdd.getNumPartitions() == 3


def test_what_is_asked_for_is_all_that_is_read(spark: "SparkSession", place: Place) -> None:
    assert reading(spark, place, where="n >= 38").count() == 2
    assert reading(spark, place, subscribe="a/x,a/+,b").count() == 60, "once, though two filters match"
    pushed = reading(spark, place).where("topic = 'a/y' and publisher = 'q' and seq > 4")
    assert sorted(row["seq"] for row in pushed.collect()) == [6, 8, 10, 12, 14, 16, 18, 20]
    others = reading(spark, place, schema="index int, position bigint, attributes map<string,string>").collect()
    assert sorted(int(row["attributes"]["n"]) for row in others) == sorted([*range(40), *range(20)])
    positions = sorted({row["position"] for row in others})
    journal = journal_of(place)
    part = reading(
        spark, place, startingOffsets=f"{journal}@{positions[1]}", endingOffsets=json.dumps({journal: positions[2]})
    )
    assert part.count() == sum(row["position"] == positions[1] for row in others)
    assert reading(spark, place, startingOffsets="2100-01-01").count() == 0


def journal_of(place: Place) -> str:
    with resprout.sync.connect(place.address, timeout=PATIENCE_S) as client:
        return client.read("#").journal


def test_what_is_wrong_is_one_line_in_what_spark_says(spark: "SparkSession", place: Place) -> None:
    from pyspark.errors import PySparkException

    for words, complaint in (
        ({"startingOffsets": "soon"}, "UsageError: startingOffsets: offset='soon' is no position"),
        ({"startingOffsets": "other.1@3", "timeout": 1}, "SourceError: the journal other.1 was not found for 1 s: "),
        ({"servers": "127.0.0.1:1", "timeout": 1}, "SourceError: a broker that keeps events was not found for 1 s: "),
    ):
        with pytest.raises(PySparkException) as raised:
            reading(spark, place, **words).count()
        assert complaint in str(raised.value)


def test_a_stream_goes_on_where_its_checkpoint_says_and_has_every_message_once(
    spark: "SparkSession", place: Place, tmp_path: Path
) -> None:
    def run() -> list[tuple[int, dict[str, Any]]]:
        reader = spark.readStream.format("resprout").option("servers", place.address).option("subscribe", "$x/#")
        frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 40).load()
        writer = frame.select("offset", "value").writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return [(part["numInputRows"], json.loads(part["sources"][0]["endOffset"])) for part in query.recentProgress]

    publish(place.address, "s", 150, ("$x/1", "$x/2"))
    first = run()
    publish(place.address, "s", 30, ("$x/1",))
    second = run()
    assert sum(rows for rows, _ in first) == 150 and sum(rows for rows, _ in second) == 30
    ends = [next(iter(end[journal_of(place)].values())) for _, end in (*first, *second)]
    assert ends == sorted(ends) and all(later - earlier <= 40 for earlier, later in itertools.pairwise(ends))
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert len(rows) == len({row["offset"] for row in rows}) == 180


def test_what_was_published_while_the_broker_was_dead_ends_a_query_unless_it_may_go_on_without(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    resprout.spark.register(spark)
    with keeping("b1", tmp_path / "b1") as (process, address):
        publish(address, "p", 3)
        process.end(signal.SIGKILL)
    with keeping("b1", tmp_path / "b1") as (process, address):
        publish(address, "q", 4)
        gap = Place(process, address)
        missing = "DataLossError: events between position"
        with pytest.raises(PySparkException, match=missing) as raised:
            reading(spark, gap).count()
        assert "broker b1 was down between its lives" in str(raised.value)
        assert reading(spark, gap, failOnDataLoss=False).count() == 7

        def stream(loss: bool) -> int:
            reader = spark.readStream.format("resprout").option("servers", address).option("subscribe", "a/#")
            frame = reader.option("startingOffsets", "earliest").option("failOnDataLoss", loss).load()
            writer = frame.select("value").writeStream.format("noop")
            checkpoint = str(tmp_path / f"checkpoint {loss}")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            assert query.awaitTermination(120)
            return sum(part["numInputRows"] for part in query.recentProgress)

        with pytest.raises(PySparkException, match=missing):
            stream(loss=True)
        assert stream(loss=False) == 7
