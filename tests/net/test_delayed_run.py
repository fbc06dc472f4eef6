"""Delayed and expiring messages in a run with processes, judged."""

import asyncio

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, lines
from resprout.core.timing import DUE
from resprout.net.run.coordinator import RealRun
from resprout.scenario.load import parse_scenario

SCENARIO = """
seed = 5
time_limit = "120s"
options = { faults_tolerated = 1, lease_us = 2_000_000 }
broker = [
    { name = "b0" }, { name = "b1", parent = "b0" }, { name = "b2", parent = "b0" }, { name = "b3", parent = "b2" },
]
client = [
    { name = "p", broker = "b0" },
    { name = "s", broker = "b2", subscribe = ["t"] },
    { name = "w", broker = "b1", subscribe = [{ filter = "t", durable = "d" }] },
    { name = "g", broker = "b3", subscribe = [{ filter = "t", durable = "g", group = true }] },
]
fault = [{ at = "7s", kind = "crash", nodes = ["b1"] }]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["t"]
operations = 60
interval = "20ms"
start = "6s"
delays = 0.4
delay_max = "5s"
expiries = 0.3
ttl_max = "2s"
"""


def test_delayed_and_expiring_messages_keep_their_times_through_the_death_of_a_broker() -> None:
    run = asyncio.run(RealRun(parse_scenario(SCENARIO)).finish())
    assert run.ended == "quiescent"
    verdict = judge(run.rows)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert {check.status for check in verdict.checks if check.rule in ("early", "expired", "durable")} == {CLEAN}
    delayed = {row.seq for row in run.rows if row.kind == "publish" and DUE in (row.attributes or {})}
    given = {row.node for row in run.rows if row.kind in ("deliver", "handed") and row.seq in delayed}
    assert given == {"s", "w", "g"}
