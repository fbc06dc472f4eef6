"""Names that are taken: second brokers started by mistake, restarts in the middle of a repair, and lives that are told
what they must be above. In the virtual world, where a second broker is a node of its own."""

import random

import pytest

from resprout.core.contract import LinkUp, Note, Received, Retire, Send
from resprout.overlay.messages import Fenced
from resprout.scenario.model import BrokerSpec, FaultKind, FaultSpec, Scenario
from resprout.sim.run import RunResult, run_scenario
from resprout.sim.swarm import try_seed
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.messages import JoinRequest, NameTaken
from resprout.stacks.stack import BrokerSeat
from resprout.trace.schema import Row
from tests.soak import cases

TREE = (
    BrokerSpec("b0"), BrokerSpec("b1", "b0"), BrokerSpec("b2", "b0"), BrokerSpec("b3", "b1"), BrokerSpec("b4", "b3"),
)  # fmt: skip
AT_US = 5_000_000


def play(*faults: FaultSpec) -> RunResult:
    in_order = sorted(faults, key=lambda fault: fault.at_us)
    return run_scenario(Scenario("names", TREE, faults=tuple(in_order)))


def double(name: str, parent: str, at_us: int = AT_US) -> FaultSpec:
    return FaultSpec(at_us, FaultKind.DOUBLE, (name,), parent=parent)


def rows(result: RunResult, *kinds: str) -> list[Row]:
    return [row for row in result.rows if row.kind in kinds and row.time_us >= AT_US - 1_000_000]


@pytest.mark.parametrize(("name", "parent"), [("b1", "b0"), ("b1", "b2"), ("b4", "b2"), ("b0", "b4"), ("b4", "b3")])
def test_a_second_broker_of_a_living_name_is_refused_wherever_it_asks(name: str, parent: str) -> None:
    result = play(double(name, parent))
    assert result.ended == "quiescent"
    assert [(row.node, row.kind) for row in rows(result, "name_refused", "fenced", "repair_begin", "joined")] == [
        (f"{name}+1", "name_refused")
    ]
    assert f"a broker called {name} lives" in str(rows(result, "name_taken")[0].detail)


def test_the_second_waits_for_a_real_one_that_is_frozen_and_is_refused_when_it_speaks() -> None:
    freeze = FaultSpec(AT_US - 100_000, FaultKind.FREEZE, ("b3",))
    result = play(freeze, FaultSpec(AT_US + 1_500_000, FaultKind.UNFREEZE, ("b3",)), double("b3", "b2"))
    refused = rows(result, "name_refused", "fenced", "joined")
    assert [(row.node, row.kind) for row in refused] == [("b3+1", "name_refused")]
    assert refused[0].time_us > AT_US + 1_500_000


def test_the_name_of_a_dead_broker_is_free_after_its_repair_and_the_first_one_is_then_the_second() -> None:
    crash = FaultSpec(AT_US, FaultKind.CRASH, ("b3",), host=True)
    result = play(crash, double("b3", "b2", AT_US + 1_000), FaultSpec(AT_US + 20_000_000, FaultKind.RECOVER, ("b3",)))
    assert result.ended == "quiescent"
    repaired_us = max(row.time_us for row in rows(result, "repair_end"))
    ends = [(row.node, row.kind) for row in rows(result, "joined", "name_refused")]
    assert ends == [("b3+1", "joined"), ("b3", "name_refused")]
    assert rows(result, "joined")[0].time_us > repaired_us


def test_of_two_that_want_a_free_name_at_once_one_gets_it() -> None:
    result = play(FaultSpec(AT_US, FaultKind.CRASH, ("b4",)), double("b4", "b2"), double("b4", "b1"))
    assert result.ended == "quiescent"
    assert sorted(row.kind for row in rows(result, "joined", "name_refused")) == ["joined", "name_refused"]


def test_a_restarted_root_that_remembers_its_company_joins_it() -> None:
    back = FaultSpec(AT_US + 1_000_000, FaultKind.RECOVER, ("b0",), first=True)
    result = play(FaultSpec(AT_US, FaultKind.CRASH, ("b0",)), back)
    assert [(row.node, row.kind) for row in rows(result, "joined")] == [("b0", "joined")]


def test_the_next_life_is_above_what_fenced_it() -> None:
    broker = ResproutBroker(BrokerSeat("b1", 3, "b0"), ResproutOptions(), random.Random(1))
    broker.start(0)
    broker.step(LinkUp("b0", "broker", 1, 10_000), 0)
    out = broker.step(Received("b0", Fenced(41)), 0)
    assert [effect for effect in out if isinstance(effect, Retire)] == [
        Retire("b0 says that this broker was declared dead", above=41)
    ]


def test_a_newcomer_below_a_dead_life_is_told_which_one_it_must_be_above() -> None:
    root = ResproutBroker(BrokerSeat("b0", 1, None), ResproutOptions(), random.Random(1))
    root.start(0)
    root.life.view.mark_dead("b1", 7)
    out = [*root.step(LinkUp("b1?7.1", "newcomer", 7, 10_000), 0), *root.step(Received("b1?7.1", JoinRequest("")), 0)]
    assert Send("b1?7.1", Fenced(7)) in out


def test_only_whom_it_asked_can_refuse_a_broker_and_only_before_it_has_a_place() -> None:
    broker = ResproutBroker(BrokerSeat("b1", 3, "b0"), ResproutOptions(), random.Random(1))
    broker.start(0)
    for name in ("b0", "b7"):
        broker.step(LinkUp(name, "broker", 1, 10_000), 0)
    assert [x for x in broker.step(Received("b7", NameTaken("no")), 0) if isinstance(x, Retire | Note)] == []
    out = broker.step(Received("b0", NameTaken("b1 lives")), 0)
    assert [effect.refused for effect in out if isinstance(effect, Retire)] == [True]


@pytest.mark.parametrize("drawn", ["doubled-names", "restarts"])
def test_drawn_trials_with_doubled_names_and_restarts_keep_every_promise(drawn: str) -> None:
    failures = [outcome.report for seed in range(1, cases(5, 17)) if (outcome := try_seed(seed, drawn)).failed]
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize(
    ("seed", "drawn"),
    [
        pytest.param(710066, "doubled-names", id="a life that lost its name could not be told"),
        pytest.param(700019, "doubled-names", id="nobody heard that a name had come back elsewhere"),
        pytest.param(720019, "restarts", id="a later life that refused a session did not end the earlier one"),
        pytest.param(730008, "restarts", id="a later life was taken for one that is no member"),
    ],
)
def test_what_the_swarms_of_names_found_stays_found(seed: int, drawn: str) -> None:
    outcome = try_seed(seed, drawn)
    assert not outcome.failed, outcome.report
