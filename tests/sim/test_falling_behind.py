"""Many clients fall behind together, and come back: whoever does is served again, at once."""

import pytest

from resprout.audit.judge import judge
from resprout.scenario.model import BrokerSpec, FaultKind, FaultSpec, Scenario
from resprout.sim.run import RunResult, run_scenario
from tests.sim.test_delivered import SECOND, client, published, work
from tests.soak import every_nth

BROKERS = 5
FROZEN_US = 4 * SECOND
NAMES = tuple(f"c{n}" for n in range(3 * BROKERS))
"""Of clients at every broker: what the others know of a lost broker depends on where it stands."""


def run(frozen_s: int) -> tuple[RunResult, int]:
    """The result, and when they go on."""
    brokers = tuple(BrokerSpec(f"b{n}", f"b{(n - 1) // 2}" if n else None, 5_000) for n in range(BROKERS))
    clients = tuple(client(name, f"b{n % BROKERS}", "a") for n, name in enumerate(NAMES))
    awake_us = FROZEN_US + frozen_s * SECOND
    operations = (awake_us + 15 * SECOND) // 50_000
    scenario = Scenario(
        "falling behind",
        brokers,
        clients=(*clients, client("p", "b0")),
        workloads=(work("p", "a", operations=operations),),
        faults=(FaultSpec(FROZEN_US, FaultKind.FREEZE, NAMES), FaultSpec(awake_us, FaultKind.UNFREEZE, NAMES)),
        time_limit_us=300 * SECOND,
    )
    result = run_scenario(scenario)
    assert result.ended == "quiescent"
    return result, awake_us


@pytest.mark.parametrize("frozen_s", every_nth([1, 5, 28], 2))
def test_clients_that_are_frozen_for_less_than_their_sessions_last_miss_nothing(frozen_s: int) -> None:
    result, _ = run(frozen_s)
    assert not judge(result.rows).violated


@pytest.mark.parametrize("frozen_s", every_nth([34, 60], 2))
def test_clients_whose_sessions_are_over_are_told_and_served_again_at_once(frozen_s: int) -> None:
    """Their brokers live, and it took up to two minutes until somebody dared to give up what they had missed."""
    result, awake_us = run(frozen_s)
    last = published(result, "p")[-1]
    for name in NAMES:
        mine = [row for row in result.rows if row.node == name]
        assert any("deliveries may be missing" in (row.detail or "") for row in mine), "it is told"
        (again,) = [row.time_us for row in mine if row.kind == "subscribed" and row.time_us > FROZEN_US]
        assert again < awake_us + 2 * SECOND
        assert mine[-2].seq == last.seq or any(row.kind == "deliver" and row.seq == last.seq for row in mine)
