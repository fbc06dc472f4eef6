"""All brokers are killed at once and started again: what was safe is there, and is delivered once to all who are owed
it. Where a disk is lost, clients are told that deliveries may be missing, and nothing is missing without a word."""

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import lines
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind
from resprout.sim.classes import CLASSES
from resprout.sim.classes.machines import blackout
from resprout.sim.run import RunResult, run_scenario
from resprout.sim.swarm import try_seed, try_seeds
from tests.soak import every_nth

SCENARIO = """
name = "blackout"
seed = 3
time_limit = "200s"
[options]
faults_tolerated = 1
ghost_us = 5_000_000
durable = "journal"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
disk_latency = "4ms"
[[broker]]
name = "b2"
parent = "b1"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a", "$b"]
[[client]]
name = "c1"
broker = "b2"
subscribe = ["a", "$b"]
[[workload]]
kind = "random"
clients = ["c0", "c1"]
topics = ["a", "$b"]
operations = 25
mix = { eventual = 0.2, fifo = 0.3, causal = 0.3, total = 0.2 }
interval = "40ms"
start = "2s"
[[fault]]
at = "2500ms"
kind = "crash"
nodes = ["b0", "b1", "b2"]
"""

BACK = """
[[fault]]
at = "3s"
kind = "recover"
nodes = ["b2"]
found = true
[[fault]]
at = "3100ms"
kind = "recover"
nodes = ["b0", "b1"]
"""

PLAIN = SCENARIO.replace("fifo = 0.3, causal = 0.3, total = 0.2", "fifo = 0.4, causal = 0.4")
MISSING = "the log of {} is not there: clients with subscriptions are told that deliveries may be missing"

EMPTY = BACK.replace(
    'nodes = ["b0", "b1"]',
    'nodes = ["b0"]\n[[fault]]\nat = "3200ms"\nkind = "recover"\nnodes = ["b1"]\ndisk = false',
)


def played(text: str, *overrides: str) -> RunResult:
    return run_scenario(parse_scenario(text, "test", overrides))


def notes(result: RunResult, kind: str, node: str) -> list[str | None]:
    return [row.detail for row in result.rows if row.kind == kind and row.node == node]


def assert_loss_is_told(result: RunResult) -> None:
    """To each client; and what they are given is in order, and given once."""
    verdict = judge(result.rows)
    broken = {check.rule for check in verdict.checks if check.anomalies}
    assert broken <= {"lost_told"}, "\n".join(lines(verdict))
    assert {row.node for row in result.rows if row.kind == "session_lost"} == {"c0", "c1"}
    assert result.ended == "quiescent"


def test_everything_is_there_again_though_another_broker_begins_the_network() -> None:
    result = played(SCENARIO + BACK)
    verdict = judge(result.rows)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert result.ended == "quiescent"
    assert sum(row.kind == "deliver" for row in result.rows) == 2 * 50
    gathered, *_, published = notes(result, "revival", "b2")
    assert gathered == "the logs on the disks of all brokers are being merged"
    assert published is not None and published.endswith("bundles are published once more")


def test_without_the_journal_the_same_is_lost() -> None:
    result = played(SCENARIO.replace('durable = "journal"', "durable = true") + BACK)
    assert judge(result.rows).violated


def test_nobody_is_served_before_everybody_is_back_and_those_who_are_waited_for_are_named() -> None:
    late = (
        BACK.replace('nodes = ["b0", "b1"]', 'nodes = ["b1"]')
        + """
[[fault]]
at = "12s"
kind = "recover"
nodes = ["b0"]
"""
    )
    result = played(SCENARIO + late, "options.ghost_us=20_000_000")
    verdict = judge(result.rows)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert "waits for b0 with the logs on their disks" in notes(result, "revival", "b2")
    assert not [row for row in result.rows if row.kind == "deliver" and 2_600_000 < row.time_us < 12_000_000]


@pytest.mark.parametrize("ghost_s", [5, 30])
def test_up_to_f_disks_that_never_come_back_are_not_waited_for_for_ever(ghost_s: int) -> None:
    """Others hand up their logs again every 12 s. With 30 s, which is the default, that began the wait anew."""
    late = BACK.replace('nodes = ["b0", "b1"]', 'nodes = ["b1"]')
    result = played(PLAIN + late, f"options.ghost_us={ghost_s}_000_000")
    *_, published, told = notes(result, "revival", "b2")
    assert published is not None and published.endswith("without b0")
    assert told == MISSING.format("b0")
    assert_loss_is_told(result)


@pytest.mark.parametrize("seed", every_nth((94111245, 94111287), 2))
def test_a_root_whose_voters_joined_a_network_that_an_operator_founded_anew_joins_it_too(seed: int) -> None:
    """It waited for its voters for ever, and the founder waited for what was on its disk."""
    outcome = try_seed(seed, "blackout", check_period=0)
    assert not outcome.failed, outcome.report


def test_a_disk_that_comes_back_empty_is_told_to_everybody_who_subscribed() -> None:
    result = played(PLAIN + EMPTY)
    assert notes(result, "revival", "b2")[-1] == MISSING.format("b1")
    assert_loss_is_told(result)


def test_whoever_was_not_told_before_everything_stopped_again_is_told_then() -> None:
    again = """
[[fault]]
at = "2600ms"
kind = "freeze"
nodes = ["c0", "c1"]
[[fault]]
at = "8s"
kind = "unfreeze"
nodes = ["c0", "c1"]
[[fault]]
at = "6s"
kind = "crash"
nodes = ["b0", "b1", "b2"]
[[fault]]
at = "6500ms"
kind = "recover"
nodes = ["b2"]
found = true
[[fault]]
at = "6600ms"
kind = "recover"
nodes = ["b0", "b1"]
"""
    result = played(PLAIN + EMPTY + again)
    assert notes(result, "revival", "b2").count(MISSING.format("b1")) == 1, "the second time all disks are there"
    assert_loss_is_told(result)
    assert all(row.time_us > 6_600_000 for row in result.rows if row.kind == "session_lost")


def test_a_log_of_another_network_is_not_thrown_away_unasked() -> None:
    empty = BACK.replace("found = true", "found = true\ndisk = false")
    result = played(SCENARIO + empty)
    (reason,) = notes(result, "name_refused", "b1")
    assert reason is not None and "start the brokers of that one together, or give it an empty folder" in reason


def test_all_brokers_fall_at_once_and_at_most_one_is_told_to_begin_the_network() -> None:
    assert CLASSES["blackout"] is blackout
    for seed in (16, 19):
        trial = blackout(seed)
        names = {broker.name for broker in trial.scenario.brokers}
        assert trial.scenario.options["durable"] == "journal"
        assert all(set(strike.fault.nodes) == names for strike in trial.at_events)
        founders = [fault for fault in trial.scenario.faults if fault.kind is FaultKind.RECOVER and fault.found]
        assert len(founders) <= len(trial.at_events)


def test_equal_seeds_give_equal_trials() -> None:
    assert blackout(16) == blackout(16)


@pytest.mark.parametrize("seed", [16, 18])
def test_found_by_a_swarm(seed: int) -> None:
    """Topics that no wildcard covers; few words about many."""
    (outcome,) = try_seeds([seed], 1, "blackout")
    assert not outcome.failed, outcome.report


def test_a_client_that_gives_up_the_moment_it_is_served_is_still_waited_for() -> None:
    """Its broker had never heard of it in this life, and took it for one that a later life had replaced."""
    (outcome,) = try_seeds([7800073], 1, "blackout")
    assert not outcome.failed, outcome.report
