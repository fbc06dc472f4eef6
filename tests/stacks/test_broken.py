"""Must show: for every promise, a stack that breaks it is caught by the judge under the right rule."""

from typing import Any

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario
from resprout.stacks import registry
from resprout.stacks.resprout import ResproutBroker
from tests.stacks import broken

TREE = """
stack = "broken"
seed = 11
time_limit = "60s"
[options]
faults_tolerated = 1
[topology]
kind = "tree"
brokers = 5
degree = 3
latency = "7ms"
clients_per_broker = 1
client_latency = "3ms"
subscribe = ["a/#"]
"""
STEADY = """
[[workload]]
kind = "random"
topics = ["a/x", "a/y"]
operations = 40
mix = { eventual = 0.2, fifo = 0.4, causal = 0.4 }
interval = "8ms"
start = "300ms"
"""
TALK = """
[[workload]]
kind = "chatter"
topics = ["a/x", "a/y"]
operations = 15
interval = "20ms"
start = "300ms"
depth = 4
answer = 0.4
answers_max = 60
"""
LATE = """
stack = "broken"
seed = 2
time_limit = "60s"
[topology]
kind = "chain"
brokers = 6
latency = "300ms"
clients_per_broker = 0
[[client]]
name = "early"
broker = "b0"
subscribe = ["a/x"]
[[client]]
name = "late"
broker = "b5"
latency = "500ms"
subscribe = ["a/x"]
[[workload]]
kind = "random"
clients = ["early"]
topics = ["a/x"]
operations = 300
interval = "20ms"
"""
CHURN = """
[[workload]]
kind = "random"
topics = ["a/x", "c/y", "d"]
operations = 60
mix = { causal = 1.0 }
interval = "10ms"
start = "300ms"
churn = 0.3
"""
PICKY = """
[[client]]
name = "picky"
broker = "b4"
subscribe = [{ filter = "a/x", where = "amount > 500" }]
[[workload]]
kind = "random"
clients = ["c0", "c1"]
topics = ["a/x"]
operations = 40
burst = 8
start = "300ms"
"""


def judged(monkeypatch: pytest.MonkeyPatch, make: Any, workload: str) -> Verdict:
    """What the judge says about a run with these brokers; it must have come to rest, or loss is not judged."""
    monkeypatch.setitem(registry.STACKS, "broken", broken.stack_of(make))
    result = run_scenario(parse_scenario(workload if workload == LATE else TREE + workload))
    assert result.ended == "quiescent"
    verdict = judge(result.rows)
    assert verdict.counts["deliveries"] > 100
    return verdict


def rules(verdict: Verdict) -> set[str]:
    return {anomaly.rule for anomaly in verdict.anomalies}


@pytest.mark.parametrize("make", [ResproutBroker, broken.Repeater])
@pytest.mark.parametrize(
    "workload", [STEADY, TALK, CHURN, PICKY, LATE], ids=["steady", "talk", "churn", "picky", "late"]
)
def test_brokers_that_break_nothing_are_found_clean(monkeypatch: pytest.MonkeyPatch, make: Any, workload: str) -> None:
    assert judged(monkeypatch, make, workload).anomalies == []


@pytest.mark.parametrize(
    ("make", "workload", "rule", "besides"),
    [
        (broken.Juggler, STEADY, "fifo", {"causal", "receipt"}),
        (broken.Dawdler, TALK, "causal", {"receipt"}),
        (broken.Sieve, STEADY, "lost", {"receipt", "causal"}),
        (broken.Parrot, STEADY, "twice", {"fifo", "causal"}),
        (broken.Flatterer, STEADY, "receipt", set()),
        (broken.promiser, LATE, "lost", {"receipt", "causal"}),
        (broken.giver, PICKY, "unasked", set()),
        (broken.Forger, STEADY, "invented", {"lost", "receipt", "fifo", "causal"}),
    ],
)
def test_a_broken_promise_is_caught_under_its_rule(
    monkeypatch: pytest.MonkeyPatch, make: Any, workload: str, rule: str, besides: set[str]
) -> None:
    """`besides`: rules that the same fault may break along the way. Any other would be a false accusation."""
    verdict = judged(monkeypatch, make, workload)
    assert rule in rules(verdict)
    assert rules(verdict) <= {rule, *besides}
    assert verdict.violated and verdict.check(rule).status == "violated"
    for anomaly in verdict.anomalies:
        assert anomaly.explanation and "\n" not in anomaly.explanation


def test_the_causal_fault_is_caught_by_its_chain_and_not_by_fifo(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(monkeypatch, broken.Dawdler, TALK)
    assert verdict.check("fifo").status == "clean"
    worst = next(anomaly for anomaly in verdict.anomalies if anomaly.rule == "causal")
    assert len(worst.messages) >= 2, "it names what was delivered and on what that depends"
