"""Spark reads all partitions of a log, or some of them: in batches, in streams that go on, and from offsets in each."""

import json
import signal
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import resprout
import resprout.spark
from resprout.client.past_events import Offset
from resprout.core.errors import UsageError
from resprout.core.partitions import partition_of
from resprout.logs.declaration import LogDeclaration
from resprout.spark.options import source_options
from tests.patience import PATIENCE_S
from tests.spark.test_logs import NAMES, replicas, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = LogDeclaration("ev", "ev/#", NAMES, partitions=4)


def publish(address: str, name: str, first: int, last: int) -> None:
    with resprout.sync.connect(address, name=name, timeout=PATIENCE_S) as client:
        for n in range(first, last):
            receipt = client.publish("ev/x", b"%d" % n, keys=[f"k{n % 10}"], guarantee="fifo")
        receipt.safe(timeout=PATIENCE_S)


def check(rows: list[Any], count: int) -> None:
    """Check that each message is there once, in its partition, and each partition without holes and in order."""
    by_partition: dict[int, dict[int, int]] = defaultdict(dict)
    for row in rows:
        assert row["offset"] not in by_partition[row["partition"]]
        by_partition[row["partition"]][row["offset"]] = int(row["value"])
    assert sorted(n for part in by_partition.values() for n in part.values()) == list(range(count))
    for number, part in by_partition.items():
        assert sorted(part) == list(range(len(part)))
        in_order = [part[offset] for offset in sorted(part)]
        assert {partition_of("ev/x", (f"k{n % 10}",), 4) for n in in_order} == {number}
        for key in range(10):
            mine = [n for n in in_order if n % 10 == key]
            assert mine == sorted(mine)


def test_queries_read_all_partitions_and_go_on_when_a_broker_dies(spark: "SparkSession", tmp_path: Path) -> None:
    resprout.spark.register(spark)
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    with replicas(tmp_path, msgspec.json.encode(LOG).decode()) as network:
        publish(network.addresses["b0"], "p", 0, 300)
        wait_for(network.addresses["b0"], 300)
        options = {"servers": network.servers("b1", "b2", "b0"), "subscribe": "ev/#", "log": "ev"}
        frame = spark.read.format("resprout").options(**options).load()
        rows = frame.collect()
        check(rows, 300)
        sizes = [sum(row["partition"] == number for row in rows) for number in range(4)]
        assign = {"servers": options["servers"], "assign": '{"ev": [1, 3]}'}
        some = spark.read.format("resprout").options(**assign).load().collect()
        assert len(some) == sizes[1] + sizes[3] and {row["partition"] for row in some} <= {1, 3}
        places = {"ev": {str(number): size // 2 for number, size in enumerate(sizes)}}
        later = spark.read.format("resprout").options(**options, startingOffsets=json.dumps(places)).load().collect()
        assert len(later) == sum(size - size // 2 for size in sizes)

        stream = spark.readStream.format("resprout").options(
            **options, startingOffsets="earliest", maxOffsetsPerTrigger="100"
        )
        writer = stream.load().selectExpr("partition", "offset", "CAST(value AS STRING) AS value").writeStream
        writer = writer.format("parquet").option("path", str(out)).option("checkpointLocation", str(checkpoint))
        query = writer.start()
        query.processAllAvailable()
        assert network.processes["b1"].end(signal.SIGKILL)
        publish(network.addresses["b2"], "q", 300, 500)
        wait_for(network.addresses["b2"], 500)
        query.processAllAvailable()
        query.stop()
        publish(network.addresses["b2"], "r", 500, 550)
        wait_for(network.addresses["b2"], 550)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        check(spark.read.parquet(str(out)).collect(), 550)
        batches = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        reached = json.loads(batches[-1].read_text().splitlines()[-1])
        assert set(reached) <= {f"log.ev~{number}" for number in range(4)}
        assert sum(next(iter(lives.values())) for lives in reached.values()) == 550


@pytest.mark.parametrize(
    "text",
    [
        '{"bank": {"0": 5, "1": 0, "2": 7}}',
        '{"log.bank~0": {"77": 5}, "log.bank~1": {"0": 0}, "log.bank~2": {"78": 7}}',
        "log.bank@5,0,7",
    ],
)
def test_an_offset_of_all_partitions_is_written_as_in_kafka_or_as_in_a_checkpoint(text: str) -> None:
    options = {"servers": "b0", "log": "bank", "startingOffsets": text}
    assert source_options(options, is_stream=True).start == Offset("log.bank", 12, positions=(5, 0, 7))


def test_an_offset_that_leaves_out_a_partition_is_refused() -> None:
    for text in (
        '{"log.bank~0": {"77": 5}, "log.bank~2": {"78": 7}}',
        '{"log.bank~0": {"1": 5}, "log.ship~1": {"1": 5}}',
    ):
        with pytest.raises(UsageError, match="startingOffsets: "):
            source_options({"servers": "b0", "log": "bank", "startingOffsets": text}, is_stream=True)
