"""A client that was away for too long is told that deliveries are missing, the judge knows that it was, and the swarm
accepts no such loss without a cause."""

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Anomaly
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario
from resprout.sim.swarm import swarm_trial, try_seed
from resprout.sim.told_losses import find_told, not_dropped, not_under_way
from resprout.stacks.stack import find_stack
from resprout.trace.schema import Row

AWAY = """
name = "a client is away for too long"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "far"
broker = "b1"
subscribe = ["a"]
[[client]]
name = "near"
broker = "b0"
subscribe = ["a"]
[[workload]]
kind = "random"
clients = ["near"]
topics = ["a"]
operations = 60
interval = "100ms"
[[fault]]
at = "2s"
kind = "cut"
nodes = ["far", "b1"]
[[fault]]
at = "50s"
kind = "heal"
"""


def test_a_client_that_returns_too_late_is_told_and_nothing_is_lost_in_silence() -> None:
    rows = run_scenario(parse_scenario(AWAY)).rows
    [told] = [row for row in rows if row.kind == "session_lost"]
    assert told.node == "far" and "deliveries may be missing" in (told.detail or "")
    verdict = judge(rows)
    assert verdict.check("lost").anomalies == 0
    assert verdict.check("lost_told").anomalies == verdict.counts["told"] > 0
    assert verdict.counts["owed"] == verdict.counts["came"] + verdict.counts["told"]


# -- losses on the way to clients of a dead broker ---------------------------------------------------------------------


TOLD = Row(time_us=51_000_000, node="c0", kind="session_lost")


SCENARIO = parse_scenario("""
stack = "delta"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "c0"
broker = "b1"
subscribe = ["t"]
""")


def told_loss(published_us: int, rows: list[Row]) -> list[str]:
    return not_under_way(
        SCENARIO, rows, [Anomaly("lost_told", published_us, "c0", ("c1:1",), "c0 never delivered c1:1")]
    )


def test_a_told_loss_is_excused_when_the_broker_of_the_client_fell_and_the_message_was_under_way() -> None:
    rows = [Row(time_us=50_000_000, node="b1", kind="crash"), TOLD]
    assert told_loss(49_000_000, rows) == []


def old_message(safe_us: int) -> list[Row]:
    """Published 20 s before the broker of its reader fell, and safe at this time."""
    return [
        Row(time_us=30_000_000, node="c1", kind="publish", publisher="c1", incarnation=1, stream="fifo", seq=1),
        Row(time_us=50_000_000, node="b1", kind="crash"),
        Row(
            time_us=safe_us, node="c1", kind="receipt", publisher="c1", incarnation=1, stream="fifo", seq=1,
            receipt="safe",
        ),
        TOLD,
    ]  # fmt: skip


def test_an_old_message_was_under_way_if_its_publisher_was_told_safe_after_the_broker_fell() -> None:
    assert told_loss(30_000_000, old_message(safe_us=50_500_000)) == []


@pytest.mark.parametrize(
    ("published_us", "rows"),
    [
        (
            49_000_000,
            [Row(time_us=50_000_000, node="b0", kind="crash"), TOLD],
        ),
        (49_000_000, [Row(time_us=50_000_000, node="b1", kind="crash")]),
        (
            30_000_000,
            [Row(time_us=50_000_000, node="b1", kind="crash"), TOLD],
        ),
        (30_000_000, old_message(safe_us=31_000_000)),
        (
            49_000_000,
            [
                Row(time_us=20_000_000, node="c0", kind="note", detail="b0 serves this client now"),
                Row(time_us=50_000_000, node="b1", kind="crash"),
                TOLD,
            ],
        ),
    ],
    ids=[
        "another broker fell",
        "it was never told",
        "an old message",
        "an old message that was safe",
        "it had moved away",
    ],
)
def test_other_told_losses_are_complaints(published_us: int, rows: list[Row]) -> None:
    assert told_loss(published_us, rows) == ["UNEXCUSED: c0 never delivered c1:1"]


# -- losses of what is kept for a time ---------------------------------------------------------------------------------

SECOND = 1_000_000
FAILED = Row(time_us=50 * SECOND, node="b0", kind="crash")
"""A broker that serves another client."""


@pytest.mark.parametrize(
    ("published", "rows", "excused"),
    [
        pytest.param((47, 50), [FAILED, TOLD], 2, id="the first one was dropped, and the client subscribed again"),
        pytest.param((49, 50), [FAILED, TOLD], 0, id="all of them are kept"),
        pytest.param((47, 50), [TOLD], 0, id="no broker has failed"),
        pytest.param((47, 50), [FAILED], 0, id="it was never told"),
        pytest.param((39, 50), [FAILED, TOLD], 1, id="one of them came long before any failure"),
    ],
)
def test_a_told_loss_is_excused_when_a_message_that_the_client_missed_is_older_than_what_is_kept(
    published: tuple[int, ...], rows: list[Row], excused: int
) -> None:
    losses = [Anomaly("lost_told", at * SECOND, "c0", (f"c1:{at}",), "c0 never delivered it") for at in published]
    assert len(not_dropped(SCENARIO, rows, losses, 3 * SECOND)) == len(losses) - excused


def test_the_swarm_counts_what_clients_missed_and_finds_what_should_have_been_kept() -> None:
    """A log of `scribe` that keeps publications for a second."""
    seed, options = 310400018, {"keep_us": SECOND}
    outcome = try_seed(seed, "faults", "scribe", fixed=options)
    assert not outcome.failed and outcome.told > 0, outcome.report
    trial = swarm_trial(seed, "faults", "scribe", options)
    rows = trial.run().rows
    stack = find_stack("scribe")
    told = find_told(stack, trial.scenario, rows, judge(rows, promise=stack.promise()))
    assert len(told) == outcome.told
    assert len(not_dropped(trial.scenario, rows, told, 30 * SECOND)) == len(told), "with the default they are kept"


def test_the_swarm_counts_what_clients_missed_where_a_share_is_promised() -> None:
    outcome = try_seed(310400018, "faults", "gossip")
    assert not outcome.failed and outcome.told > 0, outcome.report
