"""Disks of simulated brokers fill up and have room again; names do not resolve for a while."""

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.core.errors import UsageError
from resprout.net.run.schedule import check_runnable
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, Scenario
from resprout.scenario.source import ScenarioError
from resprout.sim.classes.machines import FULL_AFTER_CRASH_US, disks
from resprout.sim.run import RunResult, run_scenario

SCENARIO = """
seed = 5
time_limit = "300s"
options = { durable = "journal" }
topology = { kind = "tree", brokers = 3, degree = 2, latency = "1ms", clients_per_broker = 1, subscribe = ["a/#"] }

[[workload]]
kind = "random"
clients = ["c0", "c1", "c2"]
topics = ["a/b"]
operations = 40
interval = "100ms"
start = "3s"
payload = PAYLOAD
"""


def fault(at: str, kind: str, *nodes: str) -> str:
    return f'[[fault]]\nat = "{at}"\nkind = "{kind}"\nnodes = {list(nodes)}\n'.replace("'", '"')


def scenario(*faults: str, payload: int = 32) -> Scenario:
    return parse_scenario(SCENARIO.replace("PAYLOAD", str(payload)) + "".join(faults))


def run(*faults: str, payload: int = 32) -> RunResult:
    """At rest, and clean."""
    result = run_scenario(scenario(*faults, payload=payload))
    verdict = judge(result.rows)
    assert result.ended == "quiescent"
    assert not verdict.violated, "\n".join(lines(verdict))
    return result


def kinds(result: RunResult, kind: str) -> list[str]:
    return [row.node for row in result.rows if row.kind == kind]


@pytest.mark.parametrize("kind", ["disk_low", "disk_full"])
def test_all_disks_fill_up_nobody_is_declared_dead_and_everything_goes_on(kind: str) -> None:
    """With little room, clients may still send what they were granted before: a window each."""
    payload = 600_000 if kind == "disk_low" else 32
    result = run(fault("5s", kind, "b0", "b1", "b2"), fault("65s", "disk_free", "b0", "b1", "b2"), payload=payload)
    assert not kinds(result, "repair_begin") and not kinds(result, "fenced")
    delivered = [row.time_us for row in result.rows if row.kind == "deliver"]
    assert max(delivered) > 65_000_000, "what was held came later"
    if kind == "disk_full":
        assert not [at for at in delivered if 6_000_000 < at < 65_000_000], "nothing is shown that is not kept"


def test_clients_hear_a_broker_whose_disk_is_full_and_stay() -> None:
    """A real broker sends them signs of life meanwhile; without those their sessions would end after 30 s."""
    result = run(fault("5s", "disk_full", "b1"), fault("65s", "disk_free", "b1"))
    assert not kinds(result, "session_lost")
    assert not [row for row in result.rows if row.kind == "suspect" and row.node == "c1"]


def test_a_broker_that_starts_on_a_full_disk_waits_for_room() -> None:
    result = run(
        fault("4s", "disk_full", "b1"),
        fault("5s", "crash", "b1"),
        fault("6s", "recover", "b1"),
        fault("40s", "disk_free", "b1"),
    )
    joined = [row.time_us for row in result.rows if row.kind == "joined" and row.node == "b1"]
    assert len(joined) == 2 and joined[1] > 40_000_000


def test_clients_of_a_dead_broker_are_waited_for_while_the_disk_of_their_next_one_is_full() -> None:
    """The broker that keeps what they missed cannot answer for 75 s, so it keeps that longer than the usual 30 s."""
    faults = (
        fault("5900ms", "freeze", "c3"),
        fault("6s", "crash", "b3"),
        fault("15s", "disk_full", "b2"),
        fault("16s", "unfreeze", "c3"),
        fault("90s", "disk_free", "b2"),
    )
    text = SCENARIO.replace("PAYLOAD", "32").replace(
        'kind = "tree", brokers = 3, degree = 2', 'kind = "chain", brokers = 4'
    )
    result = run_scenario(parse_scenario(text + "".join(faults)))
    verdict = judge(result.rows)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert not kinds(result, "session_lost")
    delivered = [row.time_us for row in result.rows if row.kind == "deliver" and row.node == "c3"]
    assert max(delivered) > 90_000_000, "it was served when there was room"


def test_disks_have_room_in_time_for_the_clients_of_a_broker_that_crashed() -> None:
    """Clients give up what they missed about 30 s after a crash if nobody can answer them; here all disks were full."""
    faults = disks(71_500_002).scenario.faults
    crashed_us = next(fault.at_us for fault in faults if fault.kind is FaultKind.CRASH)
    assert max(fault.at_us for fault in faults if fault.kind is FaultKind.DISK_FREE) <= crashed_us + FULL_AFTER_CRASH_US


def test_names_that_do_not_resolve_at_first_are_asked_for_again() -> None:
    result = run(
        fault("4s", "crash", "b1"),
        fault("4s", "unresolve", "b0", "b2"),
        fault("5s", "recover", "b1"),
        fault("30s", "resolve", "b0", "b2"),
    )
    joined = [row.time_us for row in result.rows if row.kind == "joined" and row.node == "b1"]
    assert len(joined) == 2 and joined[1] > 30_000_000


def test_these_faults_are_for_brokers_and_only_simulated() -> None:
    with pytest.raises(ScenarioError, match="disk_full is for brokers, and 'c0' is a client"):
        scenario(fault("1s", "disk_full", "c0"))
    for kind in ("disk_low", "unresolve"):
        with pytest.raises(UsageError, match=f"{kind} of b0: .*`resprout sim`"):
            check_runnable(scenario(fault("1s", kind, "b0")))
