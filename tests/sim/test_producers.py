"""Idempotent producers: they crash, connect again with the same life, and repeat their publications in other groups."""

import pytest

from resprout.audit.judge import judge
from resprout.core.errors import UsageError
from resprout.net.run.schedule import check_runnable
from resprout.scenario.load import parse_scenario
from resprout.scenario.source import ScenarioError
from resprout.sim.classes.clients import unconfirmed
from resprout.sim.run import RunResult, run_scenario
from resprout.sim.swarm import swarm_trial, try_seed
from tests.sim.test_swarm import forged
from tests.soak import cases

SCENARIO = """
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[broker]]
name = "b2"
parent = "b0"
[[client]]
name = "p"
broker = "b1"
repeats = true
[[client]]
name = "s"
broker = "b2"
subscribe = ["t"]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["t"]
start = "3s"
operations = 40
interval = "20ms"
mix = { eventual = 0.2, causal = 0.5, total = 0.3 }
[[fault]]
at = "3200ms"
kind = "crash"
nodes = ["p"]
[[fault]]
at = "3300ms"
kind = "recover"
nodes = ["p"]
[[fault]]
at = "3500ms"
kind = "crash"
nodes = [BROKER"p"]
[[fault]]
at = "4s"
kind = "recover"
nodes = ["p"]
"""


def run(text: str) -> RunResult:
    result = run_scenario(parse_scenario(text))
    assert result.ended == "quiescent"
    return result


@pytest.mark.parametrize("with_broker", [False, True])
def test_what_a_producer_repeats_comes_once_in_order_and_its_last_process_gets_all_receipts(with_broker: bool) -> None:
    result = run(SCENARIO.replace("BROKER", '"b1", ' if with_broker else ""))
    assert not judge(result.rows).violated
    published = [row for row in result.rows if row.kind == "publish"]
    delivered = [(row.stream, row.seq) for row in result.rows if row.kind == "deliver"]
    assert len(published) == 40 and {row.incarnation for row in published} == {1}
    assert sorted(delivered, key=str) == sorted([(row.stream, row.seq) for row in published], key=str)
    assert not unconfirmed("p", result)
    rows = [(row.kind, row.node) for row in result.rows if row.node == "p" and row.kind in ("freeze", "unfreeze")]
    assert rows == [("freeze", "p"), ("unfreeze", "p")] * 2, "the processes are one client of the trace"


def test_a_publication_that_is_lost_with_the_first_process_is_owed_because_the_next_one_repeats_it() -> None:
    result = run(SCENARIO.replace("BROKER", ""))
    crash_us = next(row.time_us for row in result.rows if row.kind == "freeze")
    lost = next(row for row in result.rows if row.kind == "deliver" and row.time_us < crash_us)
    assert {a.rule for a in judge([row for row in result.rows if row is not lost]).anomalies} >= {"lost"}


def test_a_producer_whose_last_process_is_not_told_safe_is_a_complaint() -> None:
    trial = swarm_trial(1, "producers")
    result = trial.run()
    assert not trial.complaints(result)
    back = max(i for i, row in enumerate(result.rows) if row.kind == "unfreeze" and row.node == "p0")
    untold = [row for i, row in enumerate(result.rows) if i < back or row.node != "p0" or row.kind != "receipt"]
    assert "UNCONFIRMED: p0" in trial.complaints(forged(result, untold))[0]


@pytest.mark.parametrize("seed", range(1, cases(3, 5)))
def test_drawn_producers_keep_every_promise(seed: int) -> None:
    assert not try_seed(seed, "producers").complaint


def test_a_client_that_repeats_has_no_subscriptions_and_is_only_simulated() -> None:
    with pytest.raises(ScenarioError, match="has no subscriptions"):
        parse_scenario(SCENARIO.replace("BROKER", "").replace("repeats = true", 'repeats = true\nsubscribe = ["t"]'))
    with pytest.raises(UsageError, match="only for `resprout sim`"):
        check_runnable(parse_scenario(SCENARIO.replace("BROKER", "")))
