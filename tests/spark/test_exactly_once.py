"""Queries that are killed in the middle of a batch, with brokers, read and publish every message exactly once."""

from pathlib import Path

import pytest

from tests.soak import SOAKING, cases
from tests.spark.rounds import one_round


@pytest.mark.skipif(not SOAKING, reason="starts Spark three times a round: `make soak`")
@pytest.mark.parametrize("seed", range(1, 1 + cases(1, 20)))
def test_every_message_comes_through_a_query_that_is_killed_exactly_once(seed: int, tmp_path: Path) -> None:
    one_round(seed, tmp_path)
