"""Events for Spark, and from Spark: `spark.read`, `readStream`, `write` and `writeStream` with `format("resprout")`.

    import resprout.spark

    resprout.spark.register(spark)
    rows = spark.readStream.format("resprout").option("servers", "localhost:7455").option("subscribe", "bank/#").load()

docs/spark.md has the options and the columns, and says when each message is read, or published, exactly once.
"""

from typing import TYPE_CHECKING, Final

from resprout.core.errors import needed_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Make the format `resprout` known to this session, and let Spark hand filters to sources that are written in
    Python. Resprout must be installed wherever tasks of the session run. UsageError where Spark is not installed."""
    with needed_for("the format `resprout`"):
        from resprout.spark.source import ResproutSource

    spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(ResproutSource)
