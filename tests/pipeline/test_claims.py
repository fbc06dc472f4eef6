"""docs/experiments/claims.md is made from runs: its figures and verdicts follow from them, and runs can be repeated."""

from functools import cache
from pathlib import Path

import msgspec
import pytest

from resprout_lab.figures.claims_page import claims_003, claims_004, of, page
from resprout_lab.figures.claims_runs import Counted, measure, points, read

FOLDER = Path(__file__).parents[2] / "docs" / "experiments"


@cache
def found() -> list[Counted]:
    return list(read(FOLDER / "claims" / "runs.json").values())


def test_the_page_is_what_the_runs_say() -> None:
    assert (FOLDER / "claims.md").read_text() == page(found())


def test_every_run_of_the_sweeps_was_measured() -> None:
    assert {(one.sweep, one.name) for one in found()} == {(sweep, run.name) for sweep, run in points()}


@pytest.mark.parametrize(
    "name",
    ["churn=none,share=0.0,death=told,system=gossip-lazy,seed=1", "order=fifo,routing=filtering,fails=silent,seed=1"],
)
def test_a_run_gives_the_same_figures_again(name: str) -> None:
    (again,) = [(sweep, run) for sweep, run in points() if run.name == name]
    assert measure(*again) == read(FOLDER / "claims" / "runs.json")[again[0], name]


def change(changed: Counted, **values: object) -> list[Counted]:
    return [msgspec.structs.replace(one, **values) if one == changed else one for one in found()]


def test_a_lost_delivery_turns_the_verdict_on_failures_of_sites() -> None:
    worse = of(found(), "seed003", fails="silent")[0]
    before, after = claims_003(found())[0], claims_003(change(worse, came=worse.came - 1))[0]
    assert before[2] == "*reproduced*" and after[2] == "*contradicted*"


def test_an_unreliable_ring_turns_the_verdict_on_reliability() -> None:
    (calm,) = of(found(), "seed004-7", churn="none", share="0.0", system="scribe")
    before, after = claims_004(found())[0], claims_004(change(calm, came=calm.came // 2))[0]
    assert before[2] == "*reproduced*" and after[2] == "*contradicted*"
