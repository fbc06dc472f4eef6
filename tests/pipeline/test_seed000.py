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


@pytest.mark.parametrize(
    ("part", "operations", "system"),
    [
        (part, count, system)
        for part, count in (("crashes", 200), ("processes", 100))
        for system in ("corrected", "default")
    ],
)
def test_the_page_tells_of_no_loss_in_the_crash_cases(part: str, operations: int, system: str) -> None:
    found = read(RUNS)
    for dead in CRASHES:
        one = found[part, system, dead, 100, operations, 1, 3]
        assert one.ended == "quiescent" and not one.anomalies.get("lost"), one
