"""Scenarios by chance, run and judged; and the swarm itself: does it notice, and can a failure be seen again?"""

from collections.abc import Sequence

import msgspec
import pytest

from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind
from resprout.scenario.write import to_toml
from resprout.sim import swarm
from resprout.sim.run import RunResult, Trial, run_scenario
from resprout.sim.swarm import complaint_about, swarm_trial, try_seed, try_seeds
from resprout.trace.schema import Row
from resprout.trace.store import Recorder
from tests.soak import cases

FIRST, LAST = 41, 50
"""So many keep `make test` short; `test_mishaps` has those before. `make seeds` and `make soak` try more."""
BLOCK = 5


@pytest.mark.parametrize("first", range(FIRST, FIRST + cases(BLOCK, LAST + 1 - FIRST), BLOCK))
def test_drawn_scenarios_keep_every_promise(first: int) -> None:
    failures = [outcome.report for outcome in try_seeds(range(first, first + BLOCK)) if outcome.failed]
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize(
    ("drawn", "first"), [("consumers", 6), ("spilling", 51), ("unread", 1), ("doubled-clients", 1), ("rolling", 1)]
)
def test_trials_with_what_people_do_keep_every_promise(drawn: str, first: int) -> None:
    failures = [
        outcome.report for outcome in try_seeds(range(first, first + cases(2, 12)), wanted=drawn) if outcome.failed
    ]
    assert not failures, "\n\n".join(failures)


def test_a_publication_that_waits_for_somebody_it_does_not_concern_is_a_complaint() -> None:
    """The receipts of one that nobody slow asked for are taken out of the trace."""
    for seed in range(23, 50):  # in the trials before, everything concerns somebody slow
        trial = swarm_trial(seed, "unread")
        result = trial.run()
        told = {row.topic for row in result.rows if row.kind == "publish"}
        rows = [row for row in result.rows if row.receipt != "delivered"]
        if told and trial.complaints(forged(result, rows)):
            assert not trial.complaints(result)
            return
    raise AssertionError("no trial has a publication that concerns nobody slow")


def test_a_name_that_two_sessions_keep_is_a_complaint() -> None:
    trial = swarm_trial(1, "doubled-clients")
    result = trial.run()
    assert not trial.complaints(result)
    assert "DOUBLED" in trial.complaints(forged(result, [row for row in result.rows if row.kind != "leave"]))[0]


def test_equal_seeds_give_equal_trials() -> None:
    assert swarm_trial(8) == swarm_trial(8)
    assert try_seed(8).digest == try_seed(8).digest != try_seed(9).digest


@pytest.mark.parametrize("drawn", ["faults", "unread", "doubled-clients"])
@pytest.mark.parametrize("seed", [2, 5, 9])
def test_a_trial_written_as_toml_is_read_back(seed: int, drawn: str) -> None:
    scenario = swarm_trial(seed, drawn).timed
    assert parse_scenario(to_toml(scenario)) == scenario


def calm_trial() -> Trial:
    return next(trial for trial in map(swarm_trial, range(1, 100)) if not trial.timed.faults)


def forged(result: RunResult, rows: Sequence[Row]) -> RunResult:
    recorder = Recorder()
    for row in rows:
        recorder.record(row)
    return msgspec.structs.replace(result, recorder=recorder)


def test_a_lost_delivery_is_a_complaint() -> None:
    trial = calm_trial()
    result = trial.run()
    assert complaint_about(trial.scenario, result) == ""
    last = max(number for number, row in enumerate(result.rows) if row.kind == "deliver")
    complaint = complaint_about(trial.scenario, forged(result, result.rows[:last] + result.rows[last + 1 :]))
    assert "never delivered" in complaint


def test_a_run_that_gets_stuck_is_a_complaint() -> None:
    scenario = msgspec.structs.replace(calm_trial().scenario, time_limit_us=1000)
    assert "STUCK" in complaint_about(scenario, run_scenario(scenario))


def test_an_exception_in_a_run_is_a_complaint_with_the_way_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise AssertionError("a bug of our own")

    monkeypatch.setattr(Trial, "run", explode)
    report = try_seed(7).report
    assert "drawn from seed 7" in report
    assert "a bug of our own" in report
    assert "resprout swarm --first 7 --seeds 1 --class faults" in report
    assert "resprout swarm --stack ginger --first 7 --seeds 1" in try_seed(7, stack="ginger").report


def test_an_exception_in_a_rehearsal_is_a_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise AssertionError("a bug of our own")

    monkeypatch.setattr(swarm, "swarm_trial", explode)
    outcome = try_seed(7)
    assert outcome.failed
    assert "rehearsal" in outcome.report
    assert "a bug of our own" in outcome.report


def test_what_is_drawn_is_told_with_its_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = map(swarm_trial, range(1, 100))
    trial = next(trial for trial in trials if trial.at_events and trial.at_events[0].fault.kind is FaultKind.CRASH)
    strike = trial.at_events[0]
    monkeypatch.setattr(swarm, "swarm_trial", lambda *_: trial)
    told = try_seed(trial.scenario.seed).description
    assert f"after event {strike.event}, " in told
    assert f"crash {strike.fault.nodes[0]}" in told
    assert f"{len(trial.scenario.brokers)} brokers" in told
