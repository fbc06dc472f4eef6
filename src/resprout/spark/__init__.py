"""Events for Spark, and from Spark: `spark.read`, `readStream`, `write` and `writeStream` with `format("resprout")`.

    import resprout.spark

    resprout.spark.register(spark)
    rows = spark.readStream.format("resprout").option("servers", "localhost:7455").option("subscribe", "bank/#").load()

docs/spark.md has the options and the columns, and says when each message is read, or published, exactly once.
"""

import logging
import os
import sys
from typing import TYPE_CHECKING, Final

from resprout.core.errors import needed_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_USUAL_PYTHON: Final = "python3"
_PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Make the format `resprout` known to this session, and let Spark hand filters to sources that are written in
    Python. Resprout must be installed wherever tasks of the session run. UsageError where Spark is not installed.

    Spark starts its Python processes as `python3`, unless PYSPARK_PYTHON names another interpreter. On one machine
    this one is taken instead; for a cluster, a warning asks for the variable."""
    with needed_for("the format `resprout`"):
        from resprout.spark.source import ResproutSource

    _choose_python(spark)
    spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(ResproutSource)


def _choose_python(spark: "SparkSession") -> None:
    """Let Spark start Python processes in which Resprout is installed."""
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    if context is None or "PYSPARK_PYTHON" in os.environ or context.pythonExec != _USUAL_PYTHON:
        return
    if context.master.startswith("local"):
        context.pythonExec = sys.executable
    else:
        logging.getLogger("resprout.spark").warning(
            "PYSPARK_PYTHON is not set: tasks run %s of each machine, which needs Resprout", _USUAL_PYTHON
        )
