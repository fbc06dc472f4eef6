"""One Spark session for all tests that need one, in one worker of the test run."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.java import SHORT_LIVED
from tests.turns import SPARK, TOGETHER, file_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_named(items: Sequence[pytest.Item]) -> None:
    """Those who share the session are in one worker."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            if TOGETHER.get(file_of(item.nodeid)) != SPARK:
                raise pytest.UsageError(f"{item.nodeid} uses Spark: name its file in tests/turns.py")
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))  # any of them may be the one that starts the session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> "Iterator[SparkSession]":
    from resprout.pipeline.session import SparkChoice, start

    if worker_id != "master":
        (tmp_path_factory.getbasetemp().parent / "spark").touch(exist_ok=False)  # or another worker has one
    options = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.sql.shuffle.partitions": "2",
    }
    session = start(SparkChoice(options=options))
    yield session
    session.stop()
