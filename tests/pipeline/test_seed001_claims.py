"""What docs/experiments/seed001.md says of each claim of the thesis follows from its tables and from runs."""

import re
from pathlib import Path

import msgspec
import pytest

from resprout_lab.figures.seed001_page import CHARTS, COLOURS, page
from resprout_lab.figures.seed001_runs import BROKERS, Measured, measure, points, read

FOLDER = Path(__file__).parents[2] / "docs" / "experiments"
RUNS = read(FOLDER / "seed001" / "runs.json")
TEMPLATE = (FOLDER / "seed001" / "page.txt").read_text()


def verdicts(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| (5\.\d[a-f]?-\d) \|.*\| ([a-z ]+) \|$", text, re.M))


def test_the_page_and_its_charts_are_those_of_the_runs() -> None:
    text, charts = page(RUNS.values(), TEMPLATE)
    assert text == (FOLDER / "seed001.md").read_text(), "python -m resprout_lab.figures.seed001_page docs/experiments"
    assert not re.search(r"\{[A-Z]", text), "every part is filled in"
    for name, chart in charts.items():
        assert chart == (FOLDER / "seed001" / name).read_text() and f"(seed001/{name})" in text
    assert len(charts) == len(CHARTS)


def test_every_run_is_there_came_to_rest_and_is_clean() -> None:
    assert {one.point for one in points()} == set(RUNS)
    assert all(one.ended == "quiescent" and not one.violated for one in RUNS.values())


def test_every_claim_has_a_verdict() -> None:
    found = verdicts(page(RUNS.values(), TEMPLATE)[0])
    assert len(found) == 18
    assert [claim for claim, verdict in found.items() if verdict == "cannot be judged"] == ["5.2-3"]


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(("5.1a", "delta", 15, "100Mbit", 1, 96), id="delta, one message at a time"),
        pytest.param(("5.3", "cbcast", BROKERS, "100Mbit", 1, 48), id="cbcast with groups"),
    ],
)
def test_a_run_gives_what_the_file_says(point: tuple[str, str, int, str, int, int]) -> None:
    assert measure(Measured(*point)) == RUNS[point]


def test_a_verdict_follows_from_the_numbers() -> None:
    """Others, and it is another one: in a table of the page, and in the runs."""
    row = next(line for line in TEMPLATE.splitlines() if line.startswith("| 511 |"))
    cells = row.split(" | ")
    faster = TEMPLATE.replace(row, " | ".join([*cells[:3], "9,000", *cells[4:]]), 1)
    assert verdicts(page(RUNS.values(), TEMPLATE)[0])["5.1a-1"] == "reproduced"
    assert verdicts(page(RUNS.values(), faster)[0])["5.1a-1"] == "contradicted"
    small = [
        msgspec.structs.replace(one, header=one.header / 10) if (one.part, one.stack) == ("5.3", "cbcast") else one
        for one in RUNS.values()
    ]
    assert verdicts(page(RUNS.values(), TEMPLATE)[0])["5.3-2"] == "reproduced"
    assert verdicts(page(small, TEMPLATE)[0])["5.3-2"] == "contradicted"
    without = [one for one in RUNS.values() if one.part != "5.3"]
    assert verdicts(page(without, TEMPLATE)[0])["5.3-2"] == "cannot be judged"
    slower = [
        msgspec.structs.replace(one, individual=one.individual * 0.8)
        if (one.part, one.stack, one.publishers) == ("5.1b", "delta", 32)
        else one
        for one in RUNS.values()
    ]
    assert verdicts(page(RUNS.values(), TEMPLATE)[0])["5.1b-1"] == "reproduced"
    assert verdicts(page(slower, TEMPLATE)[0])["5.1b-1"] == "contradicted"
    without = [one for one in RUNS.values() if one.part != "5.1b"]
    assert verdicts(page(without, TEMPLATE)[0])["5.1b-3"] == "cannot be judged"


def test_a_stack_has_one_colour_in_all_charts() -> None:
    charts = page(RUNS.values(), TEMPLATE)[1].values()
    for stack, colour in COLOURS.items():
        shown = {found for chart in charts for found in re.findall(rf'fill="(#\w+)"><title>{stack},', chart)}
        assert shown == {colour}
