"""Children that end their sessions with a broker were told that it is dead. Whatever else it believes then, it must not
take them for gone: a root that did so decided alone, and there were two networks (seed 9169 of `thin-links`)."""

import pytest

from resprout.links import flight
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario
from resprout.sim.swarm import try_seed

THIN_STAR = """
name = "a root whose words take longer than a lease"
seed = 9169
time_limit = "60s"
[options]
faults_tolerated = 1
[topology]
kind = "tree"
brokers = 6
degree = 6
latency = "100us"
bandwidth = "150Kbit"
clients_per_broker = 1
subscribe = ["thin/#"]
[[workload]]
kind = "random"
clients = ["c0", "c1", "c2"]
topics = ["thin/large"]
operations = 3
mix = { causal = 1.0 }
interval = "100ms"
payload = 100000
start = "1500ms"
"""


def test_a_root_that_was_declared_dead_is_told_so_and_declares_nobody_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With what connections began with then: today a root says less at once, and is heard on this line."""
    monkeypatch.setattr(flight, "START_BYTES", 128 << 10)
    monkeypatch.setattr(flight, "START_BYTES_SHARED", 192 << 10)
    monkeypatch.setattr(flight, "START_BYTES_FREE", 128 << 10)
    monkeypatch.setattr(flight, "START_BYTES_LEAST", 8 << 10)
    monkeypatch.setattr(flight, "RATES_US", 1 << 60)
    rows = run_scenario(parse_scenario(THIN_STAR)).rows
    fenced = [row.node for row in rows if row.kind == "fenced"]
    assert "b0" in fenced, "its children had another root long before"
    over_us = next(row.time_us for row in rows if row.kind == "fenced" and row.node == "b0")
    assert not [row for row in rows if row.kind == "repair_begin" and row.node == "b0" and row.time_us < over_us]


def test_three_large_messages_for_six_neighbours_at_1_mbit_are_no_reason_to_suspect_anybody() -> None:
    assert not try_seed(9169, "thin-links").complaint
