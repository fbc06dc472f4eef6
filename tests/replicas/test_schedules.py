"""Random schedules of drops, duplicates, reordering, crashes and restarts: one decision a slot, progress at last."""

import pytest

from tests.replicas.schedule import Schedule

SEEDS = 400
BLOCK = 50


@pytest.mark.parametrize("first", range(1, SEEDS + 1, BLOCK))
def test_replicas_decide_alike_and_go_on_when_a_majority_is_up(first: int) -> None:
    for seed in range(first, first + BLOCK):
        try:
            Schedule(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
