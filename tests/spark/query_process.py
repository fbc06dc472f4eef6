"""A streaming query in a process of its own, to be killed: from `in/#` to `out`, with real brokers. When there is a
file CHECKPOINT.stop, it does what there is to do and ends.

python -m tests.spark.query_process TAP SERVERS CHECKPOINT [MASTER]
"""

import sys
from pathlib import Path

import resprout.spark
from resprout.pipeline.session import SparkChoice, start
from tests.pipeline.java import SHORT_LIVED

POSITIONS = 300
"""In a micro-batch: few, so that there are some."""


def main(tap: str, servers: str, checkpoint: str, *words: str) -> None:
    options = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": SHORT_LIVED}
    options |= {"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m"}
    master = next(iter(words), None)
    spark = start(SparkChoice(master=master, options=options))
    resprout.spark.register(spark)
    source = spark.readStream.format("resprout").option("servers", tap).option("subscribe", "in/#")
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", POSITIONS)
    rows = source.option("minPartitions", 2).load().selectExpr("value", "cast(key as string) key")
    sink = rows.writeStream.format("resprout").option("servers", servers).option("topic", "out")
    query = sink.option("checkpointLocation", checkpoint).start()
    while not Path(f"{checkpoint}.stop").exists():
        query.awaitTermination(1)
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
