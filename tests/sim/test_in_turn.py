"""Brokers that fall one after the other, each back with empty hands before the next: what a client has not received yet
outlives them all, because those who come are given copies of it."""

from collections.abc import Sequence

import pytest

from resprout.scenario.load import parse_scenario
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
)
from resprout.scenario.model import WorkloadSpec as Work
from resprout.sim.run import run_scenario
from resprout.sim.swarm import complaint_about, try_seed

MIXES = {"plain": Mix(causal=1.0), "totals": Mix(total=1.0), "both": Mix(causal=0.5, total=0.5)}
PUBLISHED_US = 40_000_000
FAR_US = 2_000_000
"""From its broker to the reader: what was sent is on its way for so long. When the broker dies, some of it is lost."""
SEEDS = 3
"""How much of it is lost is by chance."""


def complaint(
    parents: Sequence[str | None],
    home: str,
    falls: Sequence[str],
    mix: Mix,
    faults: int = 1,
    payload: int = 32,
    operations: int = 10,
    far_us: int = FAR_US,
    stays_away: str = "",
) -> str:
    """Of a tree in which a client far away from this home is owed everything, while one broker after the other crashes
    and is back at once, but for one that stays away."""
    brokers = [BrokerSpec(f"b{number}", parent, 1_000) for number, parent in enumerate(parents)]
    reader = ClientSpec("reader", home, latency_us=far_us, subscriptions=(SubscriptionSpec("#"),))
    work = Work(
        "random", ("writer",), ("a", "b"), keys=2, operations=operations, mix=mix, start_us=PUBLISHED_US,
        interval_us=1_000, payload=payload, options=RandomOptions(),
    )  # fmt: skip
    struck: list[FaultSpec] = []
    for number, name in enumerate(falls):
        at_us = PUBLISHED_US + 120_000 + far_us * number // 5
        struck.append(FaultSpec(at_us, FaultKind.CRASH, (name,)))
        if name != stays_away:
            struck.append(FaultSpec(at_us + 10_000, FaultKind.RECOVER, (name,), disk=False))
    complaints = []
    for seed in range(1, 1 + SEEDS):
        scenario = Scenario(
            "in turn", tuple(brokers), options={"faults_tolerated": faults}, workloads=(work,), faults=tuple(struck),
            clients=(ClientSpec("writer", "b0"), reader), time_limit_us=900_000_000, seed=seed,
        )  # fmt: skip
        complaints.append(complaint_about(scenario, run_scenario(scenario)))
    return "\n".join(filter(None, complaints))


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES.keys())
def test_of_two_brokers_one_that_comes_back_is_given_what_a_client_of_the_other_has_not_received(mix: Mix) -> None:
    assert complaint([None, "b0"], "b1", ["b0", "b1"], mix) == ""


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES.keys())
def test_it_outlives_three_that_fall_in_turn(mix: Mix) -> None:
    """The broker that comes back is a neighbour of the next repair, and nobody has given it anything when it came,
    because another still had it."""
    assert complaint([None, "b0", "b0"], "b0", ["b1", "b2", "b0"], mix) == ""
    assert complaint([None, "b0", "b0"], "b0", ["b1", "b2", "b0"], mix, stays_away="b2") == ""


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES.keys())
def test_a_coordinator_that_came_later_keeps_what_its_members_have(mix: Mix) -> None:
    """The root came back below others; when the one between dies, it takes over from it."""
    assert complaint([None, "b0", "b1"], "b2", ["b0", "b1", "b2"], mix) == ""


def test_with_two_faults_it_outlives_all_of_four() -> None:
    assert complaint([None, "b0", "b1", "b1"], "b1", ["b0", "b2", "b3", "b1"], MIXES["both"], faults=2) == ""


def test_copies_for_which_a_link_has_no_room_follow_when_it_has() -> None:
    falls, mix = ["b0", "b1"], MIXES["both"]
    assert complaint([None, "b0"], "b1", falls, mix, payload=60_000, operations=100, far_us=400_000) == ""


@pytest.mark.parametrize("seed", [5001339, 5101038])
def test_a_broker_that_drains_waits_until_another_has_what_its_clients_have_not(seed: int) -> None:
    outcome = try_seed(seed, "rolling")
    assert not outcome.failed, outcome.report


IN_TURN = {
    "who has forgotten what its new neighbour's client has not taken keeps it again": 242,
    "a copy is given on, though it came as one": 490,
    "a client that lost its connection to whoever keeps what it missed is sent there again": 5701789,
}


@pytest.mark.parametrize("seed", IN_TURN.values(), ids=IN_TURN.keys())
def test_falls_in_turn_that_went_wrong_once_go_well(seed: int) -> None:
    outcome = try_seed(seed, "in-turn")
    assert not outcome.failed, outcome.report


TOO_LATE = """
seed = 1
time_limit = "300s"
options = { ghost_us = 15_000_000 }
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
latency = "145ms"
[[broker]]
name = "b2"
parent = "b1"
latency = "47ms"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a"]
[[fault]]
at = "3s"
kind = "restart"
nodes = ["b0"]
[[fault]]
at = "3860ms"
kind = "freeze"
nodes = ["c0"]
[[fault]]
at = "7400ms"
kind = "crash"
nodes = ["b2"]
[[fault]]
at = "7401ms"
kind = "recover"
nodes = ["b2"]
disk = false
[[fault]]
at = "28s"
kind = "unfreeze"
nodes = ["c0"]
"""


def test_a_client_that_comes_too_late_is_not_held_by_a_broker_that_cannot_see_who_lives() -> None:
    """b2 knows b1, which the client lost, only from hearsay, and waited for its death."""
    rows = run_scenario(parse_scenario(TOO_LATE)).rows
    (lost,) = [row for row in rows if row.kind == "session_lost" and row.node == "c0"]
    assert lost.time_us < 60_000_000
