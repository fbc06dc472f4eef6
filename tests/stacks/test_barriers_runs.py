"""Causal barriers in whole networks: calm ones are clean, one dead broker is bypassed, two are beyond it."""

import pytest

from resprout.audit.judge import judge
from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim.run import run_scenario
from resprout.sim.swarm import try_seed
from resprout.stacks.barriers import CAUSAL_BARRIERS
from resprout.stacks.barriers.options import BarrierOptions
from resprout.stacks.multicast.around import BypassTree
from resprout.stacks.multicast.copies import LinkCopies
from tests.stacks.multicast_net import strike

STACK = "causal-barriers"


def crash(*names: str) -> Scenario:
    return strike(FaultSpec(1_500_000, FaultKind.CRASH, nodes=names), stack=STACK)


def rules(scenario: Scenario) -> set[str]:
    """What the judge complains of."""
    result = run_scenario(scenario)
    found = {anomaly.rule for anomaly in judge(result.rows, promise=CAUSAL_BARRIERS.promise()).anomalies}
    return found | ({"stuck"} if result.ended != "quiescent" else set())


@pytest.mark.parametrize("name", ["b0", "b1", "b2", "b3"])
def test_a_broker_that_dies_is_bypassed_and_nothing_is_lost(name: str) -> None:
    told = {"lost_told"} if name in ("b0", "b3") else set()
    assert rules(crash(name)) <= told, "only clients of the dead may have missed something"


@pytest.mark.parametrize("part", ["_pass_over", "_meet"])
def test_without_the_bypass_the_judge_complains(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BypassTree, part, lambda self, name: None)
    assert rules(crash("b2"))


def test_without_what_a_dead_broker_owed_the_judge_complains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkCopies, "end", lambda self, name: [])
    assert rules(crash("b2"))


def test_two_dead_in_a_row_are_beyond_it_and_the_judge_says_so() -> None:
    assert rules(crash("b1", "b2")) & {"lost", "stuck"}
    assert CAUSAL_BARRIERS.survives(BarrierOptions()).faults == 1, "it never said that it would survive this"


def test_drawn_networks_in_which_a_broker_dies_are_clean() -> None:
    for seed in range(1, 41):
        outcome = try_seed(seed, stack=STACK)
        assert not outcome.failed, outcome.report


def test_drawn_networks_without_faults_are_clean() -> None:
    for seed in range(12):
        result = run_scenario(draw_scenario(seed, stack=STACK, guarantees=CAUSAL_BARRIERS.guarantees, options={}))
        verdict = judge(result.rows, promise=CAUSAL_BARRIERS.promise())
        assert result.ended == "quiescent" and not verdict.violated, f"seed {seed}: {verdict.anomalies[:3]}"


def test_in_a_tree_everybody_is_a_target_and_a_sender_alone_has_one_dependency_for_each() -> None:
    scenario = parse_scenario("""
stack = "causal-barriers"
count_bytes = true
[topology]
kind = "tree"
brokers = 15
subscribe = ["t"]
[[workload]]
kind = "random"
clients = ["c0"]
topics = ["t"]
operations = 20
keys_max = 0
attributes = false
start = "1s"
""")
    load = [row.attributes or {} for row in run_scenario(scenario).rows if row.kind == "load"]
    paper = sum(int(one.get("paper_bytes", 0)) for one in load)
    messages = sum(int(one.get("paper_messages", 0)) for one in load)
    assert messages == 20 * 14 and paper == 14 * (19 * (15 * 8 + 15 * 8) + 15 * 8), "the first depends on nothing"
