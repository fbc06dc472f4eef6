"""Every ready-made scenario runs to its end in the virtual world and keeps every promise.

Those of 511 brokers have 127 here: a quarter of the time, and the same depth but for two."""

from pathlib import Path

import pytest

from resprout.scenario.load import load_scenario
from resprout.sim.run import run_scenario
from resprout.sim.swarm import complaint_about

FOLDER = Path(__file__).parents[2] / "scenarios"
FILES = sorted(FOLDER.glob("*.toml"))
SMALLER = {name: ["topology.brokers=127"] for name in ("seed001", "seed001-publishers")}


def test_there_are_scenarios() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_ready_made_scenario_is_clean(file: Path) -> None:
    scenario = load_scenario(file, SMALLER.get(file.stem, ()))
    result = run_scenario(scenario)
    assert complaint_about(scenario, result) == ""
    published = sum(row.kind == "publish" for row in result.rows)
    assert published >= sum(len(workload.clients) * workload.operations for workload in scenario.workloads)
