"""How fast Spark reads what a broker keeps, and how fast it publishes.

A broker that keeps everything, in a process of its own, and a session of Spark with a task for each core. Rows are
counted by Spark and thrown away (`noop`). Reading is compared with a client in one process that reads pages and makes
messages of them; writing with a client in one process that publishes the same bundles and waits until they are safe.
Messages have 100 bytes. Those of one bundle share topic and key, as they do where much is published; how it is where
each has a bundle of its own is measured, too.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import resprout
import resprout.spark
from benchmarks.measure import Measure
from resprout.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_BYTES: Final = 100
BUNDLE_ROWS: Final = 500
TASKS: Final = 2
READ_GOAL: Final = "300,000"
WRITE_GOAL: Final = "100,000"


def run(quick: bool = False) -> list[Measure]:
    rows = 200_000 if quick else 1_000_000
    few = rows // 10
    with tempfile.TemporaryDirectory() as folder, keeper(Path(folder)) as address:
        published, published_singly = publish(address, "in", rows, BUNDLE_ROWS), publish(address, "single", few, 1)
        read, read_singly = read_by_client(address, "in"), read_by_client(address, "single")
        with session() as spark:
            resprout.spark.register(spark)
            read_batch(spark, address, "in", rows)  # Java and the workers warm up
            batch = read_batch(spark, address, "in", rows)
            batch_singly = read_batch(spark, address, "single", few)
            stream = read_stream(spark, address, rows, Path(folder) / "read")
            write(spark, address, rows // 10, "'k'")
            written = write(spark, address, rows, "'k'")
            written_singly = write(spark, address, few, "cast(id % 100 as string)")
    alone, singly = "client, one process", "one message a bundle"
    return [
        Measure("batch read", batch, "rows/s", alone, read, READ_GOAL),
        Measure("stream read, availableNow", stream, "rows/s", alone, read, READ_GOAL),
        Measure(f"batch read, {singly}", batch_singly, "rows/s", alone, read_singly),
        Measure("batch written, safe", written, "rows/s", alone, published, WRITE_GOAL),
        Measure(f"batch written, {singly}", written_singly, "rows/s", alone, published_singly),
    ]


@contextlib.contextmanager
def keeper(folder: Path) -> Iterator[str]:
    """Its address."""
    command = [sys.executable, "-m", "resprout", "broker", "--name", "b0", "--listen", "127.0.0.1:0", "--json"]
    process = subprocess.Popen([*command, "--data", str(folder / "b0"), "--keep", "#"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        while "address" not in (said := json.loads(process.stdout.readline())):
            pass
        yield said["address"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def publish(address: str, topic: str, rows: int, together: int) -> float:
    """Rows a second, until all of them are safe."""

    async def all_of_them() -> float:
        payloads = [b"%0*d" % (ROW_BYTES, n) for n in range(together)]
        async with resprout.connect(address) as client:
            begin = time.perf_counter()
            for n in range(rows // together):
                receipt = await client.publish_bundle(topic, payloads, keys=(f"k{n % 8}",))
            await receipt.safe()
            return rows / (time.perf_counter() - begin)

    return asyncio.run(all_of_them())


def read_by_client(address: str, topic: str) -> float:
    async def all_of_them() -> float:
        async with resprout.connect(address) as client:
            begin = time.perf_counter()
            page = await client.read(topic)
            rows = len(page.messages)
            while not page.at_end:
                page = await client.read(topic, start=page.next)
                rows += len(page.messages)
            return rows / (time.perf_counter() - begin)

    return asyncio.run(all_of_them())


def _source(reader: Any, address: str, topic: str) -> "DataFrame":
    words = {"servers": address, "subscribe": topic, "startingOffsets": "earliest", "minPartitions": TASKS}
    frame: DataFrame = reader.format("resprout").options(**words).load()
    return frame


def read_batch(spark: "SparkSession", address: str, topic: str, rows: int) -> float:
    begin = time.perf_counter()
    _source(spark.read, address, topic).write.format("noop").mode("overwrite").save()
    return rows / (time.perf_counter() - begin)


def read_stream(spark: "SparkSession", address: str, rows: int, checkpoint: Path) -> float:
    """By the time of its batches; what it takes to start a query is a second or two, however much there is."""
    writer = _source(spark.readStream, address, "in").writeStream.format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    done = [part for part in query.recentProgress if part["numInputRows"]]
    assert sum(part["numInputRows"] for part in done) == rows, "every row once"
    return float(rows / sum(part["durationMs"]["triggerExecution"] / 1_000 for part in done))


def write(spark: "SparkSession", address: str, rows: int, key: str) -> float:
    """With the ledger, as a stream has it."""
    value = f"lpad(cast(id as string), {ROW_BYTES}, '0') value"
    table = spark.range(0, rows, 1, TASKS).selectExpr(value, "'out' topic", f"{key} key")
    with tempfile.TemporaryDirectory() as ledger:
        words = {"servers": address, "ledger": ledger, "publisher": "bench"}
        begin = time.perf_counter()
        table.write.format("resprout").options(**words).mode("append").save()
        return rows / (time.perf_counter() - begin)


if __name__ == "__main__":
    for measure in run("--quick" in sys.argv):
        print(
            f"{measure.name}: {measure.value:,.0f} {measure.unit}; {measure.yardstick}: {measure.yardstick_value:,.0f}"
        )
