"""Real brokers are killed, frozen, started again, asked to leave: the tree grows back, and every promise holds."""

import asyncio

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict, lines
from resprout.net.run.coordinator import ProcessRunResult, RealRun
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import Scenario
from tests.net.arrived import assert_everything_arrived

PATIENT = ["options.lease_us=6_000_000", "options.ghost_us=20_000_000"]
"""A broker that the machine lets wait is not declared dead, and a client has time to find another one."""


def run(scenario: Scenario) -> tuple[ProcessRunResult, Verdict]:
    result = asyncio.run(RealRun(scenario).finish())
    verdict = judge(result.rows, bank_initial=scenario.bank_initial)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert result.ended == "quiescent"
    return result, verdict


def notes(result: ProcessRunResult, kind: str, node: str) -> list[str | None]:
    return [row.detail for row in result.rows if row.kind == kind and row.node == node]


def test_a_broker_that_is_killed_is_repaired_and_its_client_misses_nothing() -> None:
    small = ["workload.0.operations=16", "workload.0.start=1s", "fault.0.at=1500ms"]
    result, verdict = run(load_scenario("crash-b1", PATIENT + small))
    assert notes(result, "crash", "b1") == [None]
    assert notes(result, "repair_end", "b0")[:1] == ["b1"]
    assert notes(result, "note", "c1"), "another broker serves it"
    assert_everything_arrived(verdict, 5 * 16, 5)


def test_a_broker_that_was_frozen_begins_a_new_life_and_nobody_misses_anything() -> None:
    small = ["workload.0.operations=16", "workload.0.start=1s", "fault.0.at=1500ms", "fault.1.at=14s"]
    result, verdict = run(load_scenario("freeze-b1", PATIENT + small))
    assert "b1" in notes(result, "repair_end", "b0")
    (over,) = [text for text in notes(result, "note", "b1") if text is not None and "is over" in text]
    assert over.startswith("life 1 is over: ")
    assert notes(result, "joined", "b1"), "its second life has a place"
    assert_everything_arrived(verdict, 5 * 16, 5)


CHANGES = """
name = "changes"
seed = 5
time_limit = "150s"
[options]
lease_us = 6_000_000
ghost_us = 20_000_000
durable = true
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[broker]]
name = "b2"
parent = "b1"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["t/#"]
[[client]]
name = "c1"
broker = "b1"
subscribe = ["t/#"]
[[client]]
name = "c2"
broker = "b2"
subscribe = ["t/#"]
[[workload]]
kind = "random"
topics = ["t/a", "t/b"]
operations = 150
mix = { eventual = 0.2, fifo = 0.2, causal = 0.4, total = 0.2 }
interval = "40ms"
start = "1500ms"
[[fault]]
at = "2s"
kind = "crash"
nodes = ["b1"]
[[fault]]
at = "3s"
kind = "recover"
nodes = ["b1"]
disk = DISK
[[fault]]
at = "3500ms"
kind = "join"
nodes = ["b3"]
parent = "b0"
[[fault]]
at = "6s"
kind = "leave"
nodes = ["b2"]
"""


def test_a_broker_returns_with_its_disk_another_joins_and_one_leaves() -> None:
    result, verdict = run(parse_scenario(CHANGES.replace("DISK", "true")))
    assert notes(result, "recover", "b1") == [None]
    assert notes(result, "joined", "b1") and notes(result, "joined", "b3")
    assert notes(result, "leave", "b2") == [None]
    assert notes(result, "note", "c2"), "its broker has left, and another serves it"
    assert_everything_arrived(verdict, 3 * 150, 3)


def test_the_root_returns_with_an_empty_disk_and_joins_the_network_that_it_once_founded() -> None:
    scenario = parse_scenario(CHANGES.replace("DISK", "false").replace('nodes = ["b1"]', 'nodes = ["b0"]').replace(
        'nodes = ["b3"]\nparent = "b0"', 'nodes = ["b3"]\nparent = "b1"'
    ))  # fmt: skip
    result, verdict = run(scenario)
    assert notes(result, "recover", "b0") == ["empty disk"]
    assert notes(result, "joined", "b0"), "it founds no second network"
    assert_everything_arrived(verdict, 3 * 150, 3)
