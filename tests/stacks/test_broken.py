"""Must show: for every promise, a stack that breaks it is caught by the judge under the right rule."""

from collections.abc import Iterator
from typing import Any

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.sim.run import run_scenario
from resprout.stacks import stack
from resprout.stacks.resprout import ResproutBroker
from tests.compiled import reaches_into
from tests.stacks import broken
from tests.stacks.stage import FORK, crash, once, play, scenario

pytestmark = reaches_into("resprout.order.log")

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
latency = "10ms"
subscribe = ["a/x"]
[[workload]]
kind = "random"
clients = ["early"]
topics = ["a/x"]
operations = 300
interval = "50ms"
start = "12s"
"""
TOTALS = """
[[workload]]
kind = "random"
topics = ["a/x", "a/y"]
keys = 2
operations = 30
mix = { causal = 0.6, total = 0.4 }
interval = "8ms"
start = "300ms"
"""
FEW_TOTALS = """
[[workload]]
kind = "random"
topics = ["a/x", "a/y"]
keys = 2
operations = 30
mix = { causal = 0.9, total = 0.1 }
interval = "30ms"
start = "300ms"
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


SLOW_CORNER = """
stack = "resprout"
seed = 3
time_limit = "100s"
[options]
faults_tolerated = 2
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
latency = "5ms"
[[broker]]
name = "b2"
parent = "b1"
latency = "5ms"
[[broker]]
name = "b3"
parent = "b1"
latency = "300ms"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a/#"]
[[client]]
name = "c2"
broker = "b2"
subscribe = ["a/#"]
[[workload]]
kind = "chatter"
topics = ["a/x"]
operations = 10
interval = "40ms"
start = "3s"
depth = 4
answer = 0.5
answers_max = 40
"""
"""What is published at b0 is shown at b2 at once, and answered, long before b0 hears that enough brokers have it."""


LATECOMER = """
stack = "resprout"
seed = 3
time_limit = "100s"
[options]
faults_tolerated = 1
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[broker]]
name = "b2"
parent = "b1"
[[client]]
name = "first"
broker = "b0"
[[client]]
name = "second"
broker = "b0"
subscribe = ["a/#"]
[[client]]
name = "slow"
broker = "b1"
latency = "600ms"
subscribe = ["a/#"]
[[client]]
name = "late"
broker = "b2"
latency = "730ms"
subscribe = ["a/#"]
[[workload]]
kind = "random"
clients = ["first"]
topics = ["a/x"]
operations = 5
interval = "10ms"
start = "5000ms"
[[workload]]
kind = "random"
clients = ["second"]
topics = ["a/x"]
operations = 5
interval = "10ms"
start = "5300ms"
[[fault]]
at = "5600ms"
kind = "crash"
nodes = ["b1"]
"""
"""`late` subscribes when something of `first` has passed; `second` has seen that and publishes for `late`, too. What
`first` published is still kept, because `slow` has not taken it, when the broker between them dies."""


def judged(monkeypatch: pytest.MonkeyPatch, make: Any, workload: str) -> Verdict:
    """What the judge says about a run with these brokers; it must have come to rest, or loss is not judged."""
    monkeypatch.setitem(stack.REPLACED, "broken", broken.stack_of(make))
    result = run_scenario(parse_scenario(workload if workload == LATE else TREE + workload))
    assert result.ended == "quiescent"
    verdict = judge(result.rows)
    assert verdict.counts["deliveries"] > 100
    return verdict


def rules(verdict: Verdict) -> set[str]:
    return {anomaly.rule for anomaly in verdict.anomalies}


@pytest.mark.parametrize("make", [ResproutBroker, broken.repeater])
@pytest.mark.parametrize(
    "workload", [STEADY, TALK, TOTALS, CHURN, PICKY, LATE], ids=["steady", "talk", "totals", "churn", "picky", "late"]
)
def test_brokers_that_break_nothing_are_found_clean(monkeypatch: pytest.MonkeyPatch, make: Any, workload: str) -> None:
    assert judged(monkeypatch, make, workload).anomalies == []


@pytest.mark.parametrize(
    ("make", "workload", "rule", "besides"),
    [
        (broken.Juggler, STEADY, "fifo", {"causal", "receipt"}),
        (broken.Dawdler, TALK, "causal", {"receipt"}),
        (broken.sieve, STEADY, "lost", {"receipt", "causal"}),
        (broken.parrot, STEADY, "twice", {"fifo", "causal"}),
        (broken.Flatterer, STEADY, "receipt", set()),
        (broken.promiser, LATE, "lost", {"receipt", "causal"}),
        (broken.giver, PICKY, "unasked", set()),
        (broken.Forger, STEADY, "invented", {"lost", "receipt", "fifo", "causal"}),
        (broken.hasty, TOTALS, "barrier", {"total", "causal", "fifo", "receipt", "lost"}),
        (broken.mumbler, TALK, "causal", set()),
        (broken.climber, FEW_TOTALS, "barrier", {"causal", "fifo"}),
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


def test_an_answer_that_is_let_past_what_it_answers_is_caught() -> None:
    scene = parse_scenario(SLOW_CORNER)
    sound = play(scene)
    assert sound.verdict.anomalies == [] and sound.verdict.counts["deliveries"] > 50
    assert rules(play(scene, make=broken.elbows, is_checked=False).verdict) == {"causal"}


# -- what only a crash brings to light ---------------------------------------------------------------------------------


def judged_over_crashes(make: broken.Make, scene: Scenario, victim: str) -> Iterator[set[str]]:
    """Yield the rules that are broken when the victim dies at one of several moments, each in a run of its own."""
    base = once(scene)
    first, last = base.event_of(lambda row: row.kind == "publish"), base.result.stats.events
    for event in range(first, last, (last - first) // 10):
        yield rules(play(scene, [crash(event, victim)], make=make, is_checked=False).verdict)


@pytest.mark.parametrize(
    ("make", "victim", "expected"),
    [
        (broken.Rewirer, "b1", "lost"),
        (broken.blurter, "b3", "lost"),
        (broken.Braggart, "b3", "lost"),
    ],
)
def test_a_fault_that_shows_when_a_broker_dies_is_caught(make: broken.Make, victim: str, expected: str) -> None:
    """With brokers as they should be the same crashes break nothing: `test_repair` shows it."""
    scene = scenario(FORK, operations=15, mix="mix = { causal = 1.0 }")
    assert any(expected in found for found in judged_over_crashes(make, scene, victim))


def test_what_had_passed_before_a_subscription_must_not_come_up_again_in_a_repair() -> None:
    scene = parse_scenario(LATECOMER)
    sound = play(scene)
    assert sound.verdict.anomalies == [] and len(sound.notes("deliver", "late")) == 5
    verdict = play(scene, make=broken.Digger, is_checked=False).verdict
    assert rules(verdict) == {"causal"}
    assert "late delivered second:1" in verdict.anomalies[0].explanation
