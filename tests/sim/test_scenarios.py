"""Every ready-made scenario runs to its end in the virtual world and keeps every promise.

Those without faults that are long or large are cut to what still takes every path: more of the same proves nothing."""

from pathlib import Path

import pytest

from resprout.scenario.load import load_scenario
from resprout.scenario.source import shipped
from resprout.sim.run import run_scenario
from resprout.sim.swarm import complaint_about
from tests.soak import cases

FILES = sorted(shipped("scenarios").values())
SMALLER = {
    "bank": ["workload.0.operations=100"],
    "chain": ["workload.0.operations=100"],
    "chatter": ["workload.0.operations=15"],
    "content": ["workload.0.operations=150"],
    "random": ["workload.0.operations=100"],
    "seed000": [  # as published it breaks its promises
        'options.corrected="all"',
        "workload.0.operations=100",
        "workload.1.operations=100",
    ],
    "seed001": [f"topology.brokers={cases(31, 127)}"],
    "seed001-publishers": [f"topology.brokers={cases(31, 127)}"],
}


def test_there_are_scenarios() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_ready_made_scenario_is_clean(file: Path) -> None:
    scenario = load_scenario(file, SMALLER.get(file.stem, ()))
    result = run_scenario(scenario)
    assert complaint_about(scenario, result) == ""
    published = sum(row.kind == "publish" for row in result.rows)
    assert published >= sum(len(workload.clients) * workload.operations for workload in scenario.workloads)
