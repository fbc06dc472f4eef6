"""All broker processes are killed at once under load, and started again with their folders."""

import asyncio

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.net.run.coordinator import RealRun
from resprout.scenario.load import load_scenario
from tests.net.arrived import assert_everything_arrived
from tests.soak import cases

SCENARIO = "blackout"
PATIENT = ["options.ghost_us=20_000_000"]


@pytest.mark.parametrize("time", range(cases(1, 10)))
def test_nothing_that_was_safe_is_lost_when_all_brokers_are_killed_at_once(time: int) -> None:
    moment = f"fault.0.at={3_500 + 130 * time}ms"  # of the 1.2 s in which there is load, each time another one
    scenario = load_scenario(SCENARIO, [*PATIENT, f"seed={11 + time}", moment, "workload.0.operations=30"])
    result = asyncio.run(RealRun(scenario).finish())
    verdict = judge(result.rows, bank_initial=scenario.bank_initial)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert result.ended == "quiescent"
    revived = [row.detail for row in result.rows if row.kind == "revival" and row.node == "b0"]
    assert revived and revived[-1] is not None and revived[-1].endswith("bundles are published once more")
    assert_everything_arrived(verdict, 5 * 30, 5)
