"""`write` and `writeStream`: what a query brings is published once, whatever is repeated."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import resprout
import resprout.spark
from tests.patience import PATIENCE_S
from tests.spark.brokers import keeping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Iterator[str]:
    """One broker that keeps everything."""
    resprout.spark.register(spark)
    with keeping("b0", tmp_path_factory.mktemp("events")) as (_, address):
        yield address


def kept(spark: "SparkSession", address: str, topic: str) -> "DataFrame":
    reader = spark.read.format("resprout").option("servers", address).option("subscribe", topic)
    return reader.schema("value binary, key binary, publisher string, seq bigint, attributes map<string,string>").load()


def test_a_table_is_published_with_keys_and_attributes_and_a_named_work_only_once(
    spark: "SparkSession", address: str, tmp_path: Path
) -> None:
    table = spark.range(0, 50, 1, 2).selectExpr(
        "cast(id as string) value", "concat('k', id % 2) key", "named_struct('n', id, 'even', id % 2 = 0) attributes"
    )
    words = {"servers": address, "topic": "table", "publisher": "works", "ledger": str(tmp_path), "guarantee": "fifo"}
    for _ in range(2):
        table.write.format("resprout").options(**words).mode("append").save()
    rows = kept(spark, address, "table").collect()
    assert sorted(int(row["value"]) for row in rows) == list(range(50))
    assert all(bytes(row["key"]) == b"k%d" % (int(row["value"]) % 2) for row in rows)
    told = {int(row["value"]): row["attributes"] for row in rows}
    assert told == {n: {"n": str(n), "even": str(n % 2 == 0).lower()} for n in range(50)}
    assert len({row["publisher"] for row in rows}) == 2, "one for each task"
    table.write.format("resprout").option("servers", address).option("topic", "table").mode("append").save()
    assert kept(spark, address, "table").count() == 100, "without a name it is another work"


def test_a_stream_whose_commits_are_gone_publishes_nothing_twice(
    spark: "SparkSession", address: str, tmp_path: Path
) -> None:
    def run(servers: str = address) -> None:
        source = spark.readStream.format("resprout").option("servers", address).option("subscribe", "in/#")
        rows = source.option("startingOffsets", "earliest").option("minPartitions", 2).load()
        renamed = rows.selectExpr("value", "cast(key as string) key", "concat('out/', publisher) topic")
        writer = renamed.writeStream.format("resprout").option("servers", servers).option("timeout", 2)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    def publish(first: int) -> None:
        with resprout.sync.connect(address, name="p", timeout=PATIENCE_S) as client:
            for n in range(first, first + 40):
                receipt = client.publish("in/x", b"%d" % n, keys=("k",))
            receipt.delivered(timeout=PATIENCE_S)

    checkpoint = tmp_path / "checkpoint"
    publish(0)
    run()
    publish(40)
    with pytest.raises(Exception, match=r"SinkError: batch 1, partition \d was not published: "):
        run("127.0.0.1:1")
    run()
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    run()
    rows = kept(spark, address, "out/p").collect()
    assert sorted(int(row["value"]) for row in rows) == list(range(80))
    ledger = next((checkpoint / "resprout-sink").iterdir())
    assert {path.suffix for path in ledger.iterdir()} == {".done"}


def test_what_cannot_be_written_is_refused_when_the_query_is_planned(spark: "SparkSession", address: str) -> None:
    from pyspark.errors import PySparkException

    table = spark.range(3).selectExpr("id")
    with pytest.raises(PySparkException, match="UsageError: the column value is needed"):
        table.write.format("resprout").option("servers", address).option("topic", "t").mode("append").save()
    with pytest.raises(PySparkException, match="UsageError: what was published cannot be replaced"):
        table.selectExpr("cast(id as string) value").write.format("resprout").option("servers", address).option(
            "topic", "t"
        ).mode("overwrite").save()
