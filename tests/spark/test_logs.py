"""Spark reads a log: at any broker, with its own offsets, and on when the broker that it reads from dies."""

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import resprout
import resprout.spark
from resprout.core.errors import UsageError
from resprout.spark.options import source_options
from tests.cli.processes import Running, running
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("b0", "b1", "b2")


class Network(msgspec.Struct):
    processes: dict[str, Running]
    addresses: dict[str, str]

    def servers(self, *names: str) -> str:
        return ",".join(self.addresses[name] for name in names)


@contextlib.contextmanager
def replicas(folder: Path, log: str = "ev=ev/#@b0,b1,b2") -> Iterator[Network]:
    """Three brokers that keep the log `ev`, once it is fed."""
    network = Network({}, {})
    with contextlib.ExitStack() as stack:
        for name in NAMES:
            words = ["--name", name, "--listen", "127.0.0.1:0", "--json", "--data", str(folder / name)]
            above = ["--parent", network.addresses["b0"]] if name != "b0" else []
            process = stack.enter_context(running("broker", *words, "--log", log, *above))
            network.processes[name] = process
            while name not in network.addresses:
                said = json.loads(process.line())
                if "address" in said:
                    network.addresses[name] = said["address"]
        while json.loads(network.processes["b0"].line()).get("kind") != "log_fed":
            pass
        yield network


def publish(address: str, name: str, first: int, last: int) -> None:
    """All of them are safe when it returns; most share bundles."""
    with resprout.sync.connect(address, name=name, timeout=PATIENCE_S) as client:
        for n in range(first, last):
            receipt = client.publish("ev/x", b"%d" % n, guarantee="fifo")
        receipt.safe(timeout=PATIENCE_S)


def wait_for(address: str, count: int) -> None:
    """Until the log has so many messages."""
    with resprout.sync.connect(address, name="waits", timeout=PATIENCE_S) as client:
        inbox = client.subscribe("ev/#", log="ev", replay_from="earliest", timeout=PATIENCE_S)
        for _ in range(count):
            inbox.next(timeout=PATIENCE_S)


def test_a_query_reads_a_log_and_goes_on_when_its_broker_dies(spark: "SparkSession", tmp_path: Path) -> None:
    resprout.spark.register(spark)
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    with replicas(tmp_path) as network:
        publish(network.addresses["b0"], "p", 0, 300)
        wait_for(network.addresses["b0"], 300)
        options = {"servers": network.servers("b1", "b2", "b0"), "subscribe": "ev/#", "log": "ev"}
        frame = spark.read.format("resprout").options(**options, minPartitions=3).load()
        rows = sorted(frame.collect(), key=lambda row: row["offset"])
        assert [(row["offset"], row["partition"], int(row["value"])) for row in rows] == [(n, 0, n) for n in range(300)]
        part = frame_between(spark, options, "log.ev@17", "log.ev@93")
        assert part == list(range(17, 93))

        stream = spark.readStream.format("resprout").options(
            **options, startingOffsets="earliest", maxOffsetsPerTrigger="100"
        )
        writer = stream.load().selectExpr("offset", "CAST(value AS STRING) AS n").writeStream.format("parquet")
        writer = writer.option("path", str(out)).option("checkpointLocation", str(checkpoint))
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
        done = sorted((row["offset"], int(row["n"])) for row in spark.read.parquet(str(out)).collect())
        assert done == [(n, n) for n in range(550)]
        batches = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        (reached,) = json.loads(batches[-1].read_text().splitlines()[-1])["log.ev"].values()
        assert reached == 550


def frame_between(spark: "SparkSession", options: dict[str, str], first: str, last: str) -> list[int]:
    frame = spark.read.format("resprout").options(**options, startingOffsets=first, endingOffsets=last, minPartitions=4)
    return sorted(int(row["value"]) for row in frame.load().collect())


def test_an_offset_of_something_else_is_refused() -> None:
    options = {"servers": "localhost:7450", "subscribe": "ev/#", "log": "ev", "startingOffsets": "log.other@4"}
    with pytest.raises(UsageError, match=r"startingOffsets: log.other@4 is no offset of the log ev"):
        source_options(options, is_stream=True)
    with pytest.raises(UsageError, match="log: "):
        source_options({"servers": "localhost:7450", "subscribe": "ev/#", "log": "a b"}, is_stream=True)
