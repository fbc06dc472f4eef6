"""Ginger as a whole: the network of the thesis, its five crash cases, any single crash, and each correction."""

import msgspec
import pytest

from resprout.core.errors import UsageError
from resprout.scenario.model import FaultKind, FaultSpec, Mix, Scenario, SubscriptionSpec
from resprout.sim.run import FaultAtEvent, Run
from resprout_lab.ginger import GINGER
from resprout_lab.ginger.state import CORRECTIONS, GingerOptions
from tests.soak import cases
from tests.stacks.ginger_runs import CRASH_CASES, WORK_BEGINS_US, play, seed000, small

EIGHT: dict[str, str | None] = {
    "b0": None, "b1": "b0", "b2": "b0", "b3": "b0", "b4": "b1", "b5": "b1", "b6": "b2", "b7": "b3",
}  # fmt: skip
SIX = {"c0": "b4", "c1": "b5", "c2": "b6", "c3": "b7", "c4": "b0", "c5": "b1"}


# -- options -----------------------------------------------------------------------------------------------------------


def test_corrections_are_chosen_by_name() -> None:
    assert all(GingerOptions().corrects(name) for name in CORRECTIONS)
    assert not any(GingerOptions(corrected="none").corrects(name) for name in CORRECTIONS)
    most, two = GingerOptions(corrected="all but keep, marks"), GingerOptions(corrected="keep, marks")
    assert {name for name in CORRECTIONS if not most.corrects(name)} == {"keep", "marks"}
    assert {name for name in CORRECTIONS if two.corrects(name)} == {"keep", "marks"}


def test_an_unknown_correction_is_named() -> None:
    with pytest.raises(UsageError, match="there is no correction 'kept'; there is acyclic, "):
        GINGER.parse_options({"corrected": "all but kept"})


# -- without faults ----------------------------------------------------------------------------------------------------


def test_as_published_everything_is_delivered_without_faults_and_order_is_broken() -> None:
    played = play(seed000("none"))
    assert played.anomalies["fifo"] and played.anomalies["causal"], "a message passes one of its client that is locked"
    assert played.anomalies.keys() == {"fifo", "causal"}


def test_corrected_only_the_barrier_is_broken_without_faults() -> None:
    played = play(seed000("all"))
    played.check_clean()
    assert played.verdict.counts["deliveries"] == 150 * (3 * 3 + 2 * 2)


def test_totals_stay_in_the_sub_tree_of_their_topic_as_published() -> None:
    """topic2 is read at b5 and b6: b3, b4 and b7 never hear of its totals."""
    played = play(seed000("none", operations=30))
    assert not any(line for line in played.lines("b3", "b4", "b7") if "topic2" in line and "Metadata" in line)
    locked_elsewhere = [name for name in ("b3", "b4", "b7") if played.brokers[name].state.buffer]
    for name in locked_elsewhere:
        topics = {entry.bundle.topic for entry in played.brokers[name].state.buffer.values()}
        assert topics <= {"topic1"}, (name, topics)


def test_clients_count_in_the_degree() -> None:
    played = play(seed000("none", operations=1))
    degrees = {name: broker.state.residual_degree for name, broker in played.brokers.items()}
    assert degrees == {"b0": 0, "b1": 0, "b2": 1, "b3": 1, "b4": 1, "b5": 1, "b6": 0, "b7": 1}, "annexes IV and VI"


# -- crashes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dead", CRASH_CASES, ids="-".join)
def test_corrected_nothing_is_lost_in_the_crash_cases_of_the_thesis(dead: tuple[str, ...]) -> None:
    play(seed000("all", *dead)).check_clean()


@pytest.mark.parametrize("dead", CRASH_CASES, ids="-".join)
def test_as_published_messages_are_lost_in_the_crash_cases_of_the_thesis(dead: tuple[str, ...]) -> None:
    played = play(seed000("none", *dead, operations=200, at="8s"))
    assert played.anomalies["lost"], played.anomalies


@pytest.mark.parametrize("victim", ["b0", "b1", "b4"])
@pytest.mark.parametrize("degree", [2, 1_000])
def test_corrected_any_moment_of_a_crash_is_survived(victim: str, degree: int) -> None:
    scenario = small(EIGHT, SIX, topics=("t", "u"), operations=20, total_degree=degree)
    calm = Run(scenario, None, ())
    begun: list[int] = []
    calm.world.at(WORK_BEGINS_US, lambda *_: begun.append(calm.world.events))
    calm.finish()
    fault = FaultSpec(0, FaultKind.CRASH, nodes=(victim,))
    for event in range(begun[0], calm.world.events, (calm.world.events - begun[0]) // cases(3, 6)):
        played = play(scenario, [FaultAtEvent(event, fault)])
        played.check_clean()


def test_the_degree_is_kept_after_a_crash() -> None:
    played = play(small(EIGHT, {"c0": "b4", "c2": "b6"}, dead=("b1",), total_degree=3))
    played.check_clean()
    assert all(broker.state.residual_degree >= 0 for broker in played.brokers.values())
    assert any("declined parent request" in line for line in played.lines("b0")), "b0 has room for one of two"


def test_a_broker_that_is_refused_by_all_breaks_the_degree() -> None:
    played = play(small({"b0": None, "b1": "b0", "b2": "b1"}, {"c0": "b0", "c2": "b2"}, dead=("b1",), total_degree=1))
    played.check_clean()
    assert any("breakDegree=True" in line for line in played.lines("b2"))


def test_the_last_broker_keeps_messages_for_the_clients_of_the_dead_one() -> None:
    """Seed 9062 of the swarm: it has no neighbour left, and clients that come later miss nothing."""
    homes = {"c0": "b0", "c1": "b1", "c2": "b1"}
    play(small({"b0": None, "b1": "b0"}, homes, dead=("b0",), operations=80, latency_us=9_000)).check_clean()


# -- each correction ---------------------------------------------------------------------------------------------------


def _by_topic(scenario: Scenario) -> Scenario:
    """Half of the clients read one topic, the others the other one."""
    halves = [(SubscriptionSpec("t" if number % 2 else "u"),) for number in range(len(scenario.clients))]
    clients = [
        msgspec.structs.replace(client, subscriptions=half)
        for client, half in zip(scenario.clients, halves, strict=True)
    ]
    return msgspec.structs.replace(scenario, clients=tuple(clients))


def _without(name: str, with_it: bool = False) -> Scenario:
    corrected = "all" if with_it else f"all but {name}"
    match name:
        case "client_queue" | "root_order":
            return small(EIGHT, SIX, operations=25, corrected=corrected)
        case "ordered_workers":
            return small(EIGHT, SIX, operations=25, corrected=corrected, work_us=2_000)
        case "keep":
            return small(EIGHT, SIX, operations=25, dead=("b1",), buffer_size=10, corrected=corrected)
        case "marks":
            return small(EIGHT, SIX, operations=25, dead=("b1",), seed=6, corrected=corrected, total_degree=1_000)
        case "whole_tree":
            scenario = small(EIGHT, SIX, topics=("t", "u"), operations=25, dead=("b0",), corrected=corrected)
            return _by_topic(scenario)
        case _:
            return small(EIGHT, SIX, operations=25, dead=("b1",), corrected=corrected, total_degree=1_000)


@pytest.mark.parametrize(
    ("correction", "rule"),
    [
        ("client_queue", "fifo"), ("root_order", "lost"), ("ordered_workers", "fifo"), ("keep", "lost"),
        ("marks", "lost"), ("whole_tree", "lost"), ("duplicates", "twice"),
    ],
)  # fmt: skip
def test_each_correction_removes_an_anomaly(correction: str, rule: str) -> None:
    assert play(_without(correction)).anomalies[rule]
    play(_without(correction, with_it=True)).check_clean()


def test_orphans_that_accept_each_other_leave_two_roots_as_published() -> None:
    """G3: the root has no room for b4 and b5, and each asks the other one."""
    case = {"operations": 25, "dead": ("b1",), "total_degree": 3}
    published = play(small(EIGHT, SIX, corrected="all but acyclic", **case))  # type: ignore[arg-type]
    assert sum(parent is None for parent in published.parents().values()) == 2
    play(small(EIGHT, SIX, **case)).check_clean()  # type: ignore[arg-type]


def test_totals_on_one_key_from_two_sides_of_a_broker_wait_for_ever_as_published() -> None:
    """G12, in the smallest tree: two children of a child of the root."""
    parents: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1", "b3": "b1"}
    homes = {"c0": "b0", "c2": "b2", "c3": "b3"}
    work = {"mix": Mix(eventual=0, fifo=0, causal=0, total=1), "keys": 1, "operations": 5}
    published = play(small(parents, homes, corrected="none", **work))  # type: ignore[arg-type]
    assert published.anomalies["lost"]
    assert any(broker.totals.linear for broker in published.brokers.values())
    play(small(parents, homes, **work)).check_clean()  # type: ignore[arg-type]
