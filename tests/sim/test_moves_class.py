"""The swarm's class of planned moves after a repair."""

import pytest

from resprout.scenario.model import FaultKind
from resprout.sim.swarm import swarm_trial, try_seeds
from tests.soak import cases

BLOCK = 2


@pytest.mark.parametrize("first", range(1, cases(4, 41), BLOCK))
def test_moves_break_no_promise(first: int) -> None:
    outcomes = try_seeds(range(first, first + BLOCK), wanted="moves")
    failures = [outcome.report for outcome in outcomes if outcome.failed]
    assert not failures, "\n\n".join(failures)


def test_as_many_brokers_crash_as_may_be_down_beside_one_that_moves() -> None:
    crashes = {1: set[int](), 2: set[int]()}
    for seed in range(1, 21):
        scenario = swarm_trial(seed, "moves").scenario
        faults = int(scenario.options["faults_tolerated"])
        crashes[faults].add(sum(fault.kind is FaultKind.CRASH for fault in scenario.faults))
    assert crashes[1] == {1} and 2 in crashes[2] <= {1, 2}
