"""One Spark session for all tests that need one, in one worker of the test run."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resprout.pipeline.session import SparkChoice, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
MARK = pytest.mark.xdist_group("spark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and HERE in item.path.parents and "spark" in item.fixturenames:
            item.add_marker(MARK)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))  # any of them may be the one that starts the session


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    session = start(SparkChoice(options={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}))
    yield session
    session.stop()
