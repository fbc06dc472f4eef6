"""Every broker of a tree is restarted by SIGTERM, one after the other, while clients publish: nobody misses a thing."""

import asyncio

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.net.run.coordinator import ProcessRunResult, RealRun
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import Scenario
from tests.soak import SOAKING, cases

BUSY = """
name = "a rolling restart at 5,000 messages a second"
time_limit = "110s"
[options]
faults_tolerated = 1
ghost_us = 5_000_000
[topology]
kind = "tree"
brokers = 8
degree = 3
latency = "0s"
clients_per_broker = 0
[[client]]
name = "p0"
broker = "b0"
[[client]]
name = "p1"
broker = "b3"
[[client]]
name = "p2"
broker = "b5"
[[client]]
name = "p3"
broker = "b7"
[[client]]
name = "s0"
broker = "b4"
subscribe = ["load/#"]
[[client]]
name = "s1"
broker = "b6"
subscribe = ["load/#"]
[[workload]]
kind = "random"
clients = ["p0", "p1", "p2", "p3"]
topics = ["load/a", "load/b", "load/c"]
keys = 0
operations = 25000 # in 20 s
interval = "40ms"
burst = 50
mix = { fifo = 0.3, causal = 0.7 }
start = "4s"
[[fault]]
at = "5s"
kind = "restart"
nodes = ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"]
"""


def restarted(scenario: Scenario) -> ProcessRunResult:
    result = asyncio.run(RealRun(scenario).finish())
    verdict = judge(result.rows, bank_initial=scenario.bank_initial)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert result.ended == "quiescent"
    assert not [row for row in result.rows if row.kind in ("fenced", "session_lost")]
    return result


def test_a_tree_is_restarted_broker_by_broker_and_nobody_misses_anything() -> None:
    small = [
        "topology.brokers=3", "workload.0.operations=60", "workload.0.start=2s", "fault.0.at=2500ms",
        'fault.0.nodes=["b0", "b2"]', "options.ghost_us=20_000_000",
    ]  # fmt: skip
    scenario = load_scenario("rolling", small)
    result = restarted(scenario)
    goings = [(row.kind, row.node) for row in result.rows if row.kind in ("leave", "drain", "join")]
    assert goings == [(kind, name) for name in ("b0", "b2") for kind in ("leave", "drain", "join")]
    published = sum(row.kind == "publish" for row in result.rows)
    assert published == 3 * 60
    assert sum(row.kind == "deliver" for row in result.rows) == 3 * published


@pytest.mark.skipif(not SOAKING, reason="minutes of a whole machine")
@pytest.mark.parametrize("seed", range(1, cases(1, 10) + 1))
def test_eight_brokers_are_restarted_under_5000_messages_a_second(seed: int) -> None:
    result = restarted(parse_scenario(f"seed = {seed}\n{BUSY}"))
    assert sum(row.kind == "leave" for row in result.rows) == 8
    assert sum(row.kind == "deliver" for row in result.rows) == 2 * 100_000
