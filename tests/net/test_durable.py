"""Durable subscriptions with real processes: consumers and brokers are killed, in the end all brokers at once."""

import asyncio

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, lines
from resprout.net.run.coordinator import RealRun
from resprout.scenario.load import parse_scenario

SCENARIO = """
seed = 3
time_limit = "150s"
options = { durable = "journal", heartbeat_us = 200_000, lease_us = 1_000_000, ghost_us = 8_000_000 }
topology = { kind = "tree", brokers = 3, degree = 2, latency = "1ms", clients_per_broker = 0 }

[[client]]
name = "shop"
broker = "b0"

[[client]]
name = "billing"
broker = "b1"
subscribe = [{ filter = "orders/#", durable = "billing" }]

[[client]]
name = "worker-1"
broker = "b1"
subscribe = [{ filter = "orders/#", durable = "workers", group = true }]

[[client]]
name = "worker-2"
broker = "b2"
subscribe = [{ filter = "orders/#", durable = "workers", group = true }]

[[workload]]
kind = "random"
clients = ["shop"]
topics = ["orders/eu"]
operations = 150
interval = "40ms"
start = "3s"

[[fault]]
at = "4s"
kind = "crash"
nodes = ["billing", "worker-1"]

[[fault]]
at = "5s"
kind = "crash"
nodes = ["b1"]

[[fault]]
at = "8s"
kind = "recover"
nodes = ["b1"]

[[fault]]
at = "10s"
kind = "crash"
nodes = ["b0", "b1", "b2"]

[[fault]]
at = "10500ms"
kind = "recover"
nodes = ["b0"]
found = true

[[fault]]
at = "10600ms"
kind = "recover"
nodes = ["b1", "b2"]

[[fault]]
at = "14s"
kind = "recover"
nodes = ["billing", "worker-1"]
"""


def test_consumers_brokers_and_then_all_brokers_are_killed_and_everything_is_handed_out() -> None:
    scenario = parse_scenario(SCENARIO)
    result = asyncio.run(RealRun(scenario).finish())
    assert result.ended == "quiescent"
    verdict = judge(result.rows)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert verdict.check("durable").status == CLEAN and not verdict.check("durable").reason
    for durable in ("billing", "workers"):
        handed = [
            row for row in result.rows if row.kind == "handed" and (row.attributes or {}).get("durable") == durable
        ]
        assert len({row.seq for row in handed}) == 150, durable


SPILLING = """
seed = 80
time_limit = "60s"
options = { log_bytes = 65536, heartbeat_us = 200_000, lease_us = 1_000_000 }
broker = [{ name = "b0" }, { name = "b1", parent = "b0" }, { name = "b2", parent = "b0" }]
client = [
    { name = "p", broker = "b2" },
    { name = "d", broker = "b1", subscribe = [{ filter = "jobs", durable = "d", when_full = "spill" }] },
]
fault = [
    { at = "2500ms", kind = "freeze", nodes = ["d"] },
    { at = "4500ms", kind = "crash", nodes = ["b0"] },
    { at = "8s", kind = "unfreeze", nodes = ["d"] },
]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["jobs"]
start = "2s"
operations = 400
interval = "10ms"
payload = 1000
"""


def test_a_broker_dies_while_a_subscription_spills_and_everything_is_handed_out() -> None:
    """The broker behind the dead one had forgotten what waits, and takes it back: more than it keeps in memory."""
    result = asyncio.run(RealRun(parse_scenario(SPILLING)).finish())
    assert result.ended == "quiescent"
    verdict = judge(result.rows)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert len({row.seq for row in result.rows if row.kind == "handed"}) == 400
