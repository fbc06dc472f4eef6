"""Causal barriers in whole networks without faults; with some: `test_multicast_bypass`."""

from resprout.audit.judge import judge
from resprout.scenario.draw import draw_scenario
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario
from resprout_lab.causal_barriers import CAUSAL_BARRIERS
from tests.soak import cases

STACK = "causal-barriers"


def test_drawn_networks_without_faults_are_clean() -> None:
    for seed in range(cases(4, 12)):
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
