"""A scenario comes to the same verdict in the virtual world and with real processes."""

import asyncio

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict, lines
from resprout.net.run.coordinator import RealRun
from resprout.scenario.load import load_scenario
from resprout.scenario.model import Scenario
from resprout.scenario.source import shipped
from resprout.sim.run import run_scenario
from resprout.trace.schema import Row

SMALLER = {
    "bank": ["workload.0.operations=20", "workload.0.interval=20ms", "workload.0.start=6s"],
    "chain": [
        "workload.0.operations=30", "workload.0.start=6s", "workload.1.start=6s", "workload.1.operations=2",
        "workload.1.depth=3", 'workload.1.topics=["line/down"]', "workload.1.interval=20ms",
    ],
    "chatter": [
        "workload.0.operations=3", "workload.0.interval=20ms", "workload.0.start=6s", "workload.0.depth=3",
        "workload.0.answer=1.0", 'workload.0.topics=["talk/a"]',
    ],
    "content": ["workload.0.operations=60", "workload.0.start=6s"],
    "flood": ["topology.brokers=7", "workload.0.operations=200", "workload.0.start=6s"],
    "random": ["workload.0.operations=40", "workload.0.start=6s", "workload.0.churn=0.0"],
    "seed000": [ # as published it breaks its promises, also without faults
        "stack=resprout", "options={ total_degree = 3 }", "workload.0.operations=10", "workload.0.interval=20ms",
        "workload.0.start=6s", "workload.1.operations=10", "workload.1.interval=20ms", "workload.1.start=6s",
    ],
    "seed001": [
        "topology.brokers=7", "client_links=charged", "workload.0.operations=64", "workload.0.interval=10ms",
        "workload.0.start=6s", "workload.1.start=6s", "workload.1.operations=3",
    ],
    "seed001-publishers": [
        "topology.brokers=7", "client_links=charged", "workload.0.clients=7", "workload.0.start=6s",
    ],
    "single": ["workload.0.operations=60", "workload.0.start=500ms"],
}  # fmt: skip
"""Short, and without what depends on timing: everybody is subscribed before anybody publishes, nobody's choices depend
on the order in which messages of different publishers arrive."""


def verdict_on(scenario: Scenario, rows: list[Row]) -> Verdict:
    verdict = judge(rows, bank_initial=scenario.bank_initial)
    assert not verdict.violated, "\n".join(lines(verdict))
    return verdict


def test_every_ready_made_scenario_without_faults_is_compared() -> None:
    calm = [name for name in shipped("scenarios") if not load_scenario(name).faults]
    assert sorted(SMALLER) == sorted(calm)


@pytest.mark.parametrize("name", SMALLER)
def test_processes_and_the_virtual_world_come_to_the_same_verdict(name: str) -> None:
    scenario = load_scenario(name, SMALLER[name])
    virtual = run_scenario(scenario)
    real = asyncio.run(RealRun(scenario).finish())
    assert (virtual.ended, real.ended) == ("quiescent", "quiescent")
    in_virtue, in_fact = verdict_on(scenario, virtual.rows), verdict_on(scenario, real.rows)
    for counts in (in_fact.counts, in_virtue.counts):
        counts.pop("rows")  # notes of brokers depend on timing
    assert in_fact.counts == in_virtue.counts
    assert in_fact.counts["owed"] > 0
    assert [(c.rule, c.status) for c in in_fact.checks] == [(c.rule, c.status) for c in in_virtue.checks]


def test_subscriptions_that_come_and_go_keep_every_promise() -> None:
    """When they are confirmed depends on timing, so the numbers differ from those of the virtual world."""
    scenario = load_scenario("random", ["workload.0.operations=40", "workload.0.churn=0.3"])
    real = asyncio.run(RealRun(scenario).finish())
    assert real.ended == "quiescent"
    assert verdict_on(scenario, real.rows).counts["publications"] == 200
