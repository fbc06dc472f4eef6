"""The page of seed 000 holds what was measured, and what was measured is what happens."""

from pathlib import Path

import pytest

from resprout_lab.figures.seed000_page import page
from resprout_lab.figures.seed000_runs import CRASHES, SYSTEMS, Measured, measure, points, process_points, read

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "experiments"
RUNS = FOLDER / "seed000" / "runs.json"


def test_the_page_and_its_charts_are_made_from_the_results() -> None:
    text, charts = page(list(read(RUNS).values()), FOLDER)
    assert text == (FOLDER / "seed000.md").read_text(), "python -m resprout_lab.figures.seed000_page docs/experiments"
    for name, chart in charts.items():
        assert chart == (FOLDER / "seed000" / name).read_text()


def test_nothing_is_missing_from_the_results() -> None:
    wanted = {one.point for one in [*points(), *process_points()]}
    assert wanted == read(RUNS).keys()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_crash_case_comes_out_as_the_page_says(system: str) -> None:
    wanted = Measured("crashes", system, ("b1", "b4"), 100, 200, 1, 3)
    assert measure("seed000", wanted) == read(RUNS)[wanted.point]


def test_corrected_and_the_default_stack_lose_nothing_in_either_driver() -> None:
    found = read(RUNS)
    for part, operations in (("crashes", 200), ("processes", 100)):
        for system in SYSTEMS[1:]:
            for dead in CRASHES:
                one = found[part, system, dead, 100, operations, 1, 3]
                assert one.ended == "quiescent" and not one.anomalies.get("lost"), one
