"""Scenes in which somebody who meant harm made the default stack break a promise; each is named by what is right."""

from pathlib import Path

import pytest

from resprout.scenario.load import load_scenario
from resprout.sim.run import run_scenario
from resprout.sim.swarm import complaint_about

SCENES = sorted((Path(__file__).parent / "attacks").glob("*.toml"))


@pytest.mark.parametrize("path", SCENES, ids=lambda path: path.stem)
def test_what_was_attacked_holds(path: Path) -> None:
    scenario = load_scenario(path)
    complaint = complaint_about(scenario, run_scenario(scenario))
    assert not complaint, f"{scenario.name}:\n{complaint}"
