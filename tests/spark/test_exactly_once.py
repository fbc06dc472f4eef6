"""Queries that are killed in the middle of a batch, with brokers, read and publish every message exactly once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.cluster import cluster
from tests.soak import SOAKING, cases
from tests.spark.rounds import one_round


@pytest.mark.skipif(not SOAKING, reason="starts Spark three times a round: `make soak`")
@pytest.mark.parametrize("seed", range(1, 1 + cases(1, 20)))
def test_every_message_comes_through_a_query_that_is_killed_exactly_once(seed: int, tmp_path: Path) -> None:
    one_round(seed, tmp_path)


@pytest.mark.skipif(not SOAKING, reason="starts a cluster: `make soak`")
def test_on_a_standalone_cluster_it_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "round").mkdir()
    with cluster(tmp_path / "cluster") as master:
        one_round(21, tmp_path / "round", master)


@pytest.mark.skipif(not SOAKING, reason="starts Spark: `make soak`")
def test_the_bank_on_spark_agrees_with_its_replicas() -> None:
    example = Path(__file__).parents[2] / "examples" / "bank_on_spark.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0 and "agree on every balance" in done.stdout, done.stdout + done.stderr
