"""When `delivered` is told: as soon as those have it who are owed it, whatever else somebody has not read."""

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
)
from resprout.sim.run import RunResult, run_scenario
from resprout.trace.schema import Row

CHAIN = tuple(BrokerSpec(f"b{n}", f"b{n - 1}" if n else None, 5_000) for n in range(5))
SECOND = 1_000_000
GHOST_US = 30 * SECOND
IDLE_US = (0, 40 * SECOND)


def client(name: str, broker: str, *filters: str) -> ClientSpec:
    return ClientSpec(name, broker, subscriptions=tuple(map(SubscriptionSpec, filters)))


def work(publisher: str, *topics: str, start_us: int = 2 * SECOND, operations: int = 40) -> WorkloadSpec:
    options = RandomOptions(attributes=False)
    mix = Mix(causal=1.0)
    return WorkloadSpec(
        "random", (publisher,), topics, 0, operations, mix, 50_000, start_us=start_us, options=options
    )  # fmt: skip


def run(*faults: FaultSpec, clients: tuple[ClientSpec, ...], workloads: tuple[WorkloadSpec, ...], f: int) -> RunResult:
    scenario = Scenario(
        "delivered", CHAIN, options={"faults_tolerated": f}, clients=clients, workloads=workloads, faults=faults
    )
    result = run_scenario(scenario)
    verdict = judge(result.rows)
    assert not verdict.violated and result.ended == "quiescent"
    return result


def told(result: RunResult, publisher: str) -> dict[int, int]:
    """When the publisher heard that a publication is delivered."""
    of_interest = [row for row in result.rows if row.kind == "receipt" and row.receipt == "delivered"]
    return {row.seq or 0: row.time_us for row in of_interest if row.node == publisher}


def published(result: RunResult, publisher: str) -> list[Row]:
    return [row for row in result.rows if row.kind == "publish" and row.node == publisher]


@pytest.mark.parametrize("f", [0, 1, 2])
@pytest.mark.parametrize("broker", ["b0", "b2", "b4"])
def test_a_publication_is_told_delivered_though_somebody_has_not_read_an_earlier_one(f: int, broker: str) -> None:
    """The one that does not read is near the publisher, on the way to the reader, or beyond it."""
    idle = msgspec.structs.replace(client("idle", broker, "a"), idle_us=IDLE_US)
    result = run(clients=(client("p", "b0"), client("r", "b3", "b"), idle), workloads=(work("p", "a", "b"),), f=f)
    when = told(result, "p")
    topics = {row.topic for row in published(result, "p")}
    assert topics == {"a", "b"}
    for row in published(result, "p"):
        if row.topic == "b":
            assert when[row.seq or 0] < row.time_us + SECOND
        else:
            assert when[row.seq or 0] >= IDLE_US[1], "it is not delivered while somebody has not taken it"


@pytest.mark.parametrize("f", [1, 2])
def test_other_publishers_do_not_notice_that_somebody_does_not_read(f: int) -> None:
    idle = msgspec.structs.replace(client("idle", "b2", "a"), idle_us=IDLE_US)
    clients = (client("p", "b0"), client("q", "b4"), client("r", "b2", "b"), idle)
    result = run(clients=clients, workloads=(work("p", "a"), work("q", "b")), f=f)
    when = told(result, "q")
    assert all(when[row.seq or 0] < row.time_us + SECOND for row in published(result, "q"))


def crash(name: str) -> FaultSpec:
    return FaultSpec(3 * SECOND, FaultKind.CRASH, (name,))


def returned_us(result: RunResult, *clients: str) -> int:
    """When the last of them was served again."""
    notes = [row for row in result.rows if row.kind == "note" and "serves this client now" in (row.detail or "")]
    assert {row.node for row in notes} >= set(clients)
    return max(row.time_us for row in notes if row.node in clients)


@pytest.mark.parametrize("f", [1, 2])
@pytest.mark.parametrize("victim", ["b1", "b2", "b4"])
def test_after_a_crash_delivered_is_told_soon_after_the_clients_of_the_dead_are_back(f: int, victim: str) -> None:
    lost = (client("s", victim, "a"), client("t", victim, "a", "b"), client("u", victim))
    clients = (*lost, client("p", "b0"), client("r", "b3", "a"))
    result = run(crash(victim), clients=clients, workloads=(work("p", "a"), work("u", "a")), f=f)
    back_us = returned_us(result, "s", "t", "u")
    assert back_us < 10 * SECOND
    for publisher in ("p", "u"):
        when = told(result, publisher)
        late = [
            row for row in published(result, publisher) if when[row.seq or 0] > max(back_us, row.time_us) + 3 * SECOND
        ]
        assert not late, (publisher, back_us, [(row.seq, when[row.seq or 0]) for row in late])


def test_a_client_that_does_not_come_back_holds_delivered_up_until_nobody_waits_for_it() -> None:
    gone = FaultSpec(3 * SECOND - 1, FaultKind.CRASH, ("t",), host=True)
    clients = (client("s", "b2", "a"), client("t", "b2", "a"), client("p", "b0"))
    result = run(gone, crash("b2"), clients=clients, workloads=(work("p", "a"),), f=1)
    when = told(result, "p")
    assert len(when) == len(published(result, "p"))
    assert all(when[row.seq or 0] > GHOST_US for row in published(result, "p")[-5:])


def test_a_dead_broker_without_listeners_is_mourned_by_nobody() -> None:
    clients = (client("u", "b2"), client("p", "b0"), client("r", "b4", "a"))
    result = run(crash("b2"), clients=clients, workloads=(work("p", "a"), work("u", "a")), f=1)
    assert max(told(result, "p").values()) < 8 * SECOND


def test_a_subscription_is_not_confirmed_before_others_know_whom_to_wait_for() -> None:
    """What it asks for is asked of everybody already, so nobody has to be asked; but its broker is cut off, and whoever
    replaces it must know that it has one more client. A swarm found it."""
    late = (FaultSpec(1, FaultKind.CRASH, ("late",)), FaultSpec(4 * SECOND, FaultKind.RECOVER, ("late",)))
    cut = (FaultSpec(3 * SECOND, FaultKind.PARTITION, ("b2",)), FaultSpec(15 * SECOND, FaultKind.HEAL))
    clients = (client("s", "b2", "a"), client("late", "b2", "a"), client("p", "b0"), client("r", "b4", "a"))
    faults = sorted((*late, *cut), key=lambda fault: fault.at_us)
    result = run(*faults, clients=clients, workloads=(work("p", "a", operations=300),), f=1)
    confirmed = [row.time_us for row in result.rows if row.kind == "subscribed" and row.node == "late"]
    assert min(confirmed) > 15 * SECOND


@pytest.mark.parametrize("kind", [FaultKind.CRASH, FaultKind.LEAVE])
@pytest.mark.parametrize("broker", ["b0", "b2", "b4"])
def test_nobody_waits_for_the_recorder_of_a_broker_that_is_gone(broker: str, kind: FaultKind) -> None:
    brokers = [msgspec.structs.replace(each, keep=("#",)) for each in CHAIN]
    scenario = Scenario(
        "keepers",
        tuple(brokers),
        options={"ghost_us": 3_600 * SECOND},
        clients=(client("p", "b1"), client("s", broker, "t"), client("other", "b3", "t")),
        workloads=(work("p", "t", operations=80),),
        faults=(FaultSpec(4 * SECOND, kind, (broker,)),),
    )
    result = run_scenario(scenario)
    assert not judge(result.rows).violated and result.ended == "quiescent"
    assert max(row.time_us for row in published(result, "p")) > 4 * SECOND
    assert set(told(result, "p")) >= {80} and max(told(result, "p").values()) < 60 * SECOND


@pytest.mark.parametrize("kind", [FaultKind.CRASH, FaultKind.LEAVE])
def test_a_broker_with_a_recorder_and_no_clients_is_not_waited_for_either(kind: FaultKind) -> None:
    brokers = [msgspec.structs.replace(each, keep=("t",)) for each in CHAIN]
    scenario = Scenario(
        "keepers",
        tuple(brokers),
        options={"ghost_us": 3_600 * SECOND},
        clients=(client("p", "b1"),),
        workloads=(work("p", "t", operations=80),),
        faults=(FaultSpec(4 * SECOND, kind, ("b4",)), FaultSpec(8 * SECOND, FaultKind.LEAVE, ("b3",))),
    )
    result = run_scenario(scenario)
    assert not judge(result.rows).violated and result.ended == "quiescent"
    assert max(told(result, "p").values()) < 60 * SECOND
    assert not [row for row in result.rows if row.kind == "undrained"], "the one that leaves does not wait for it"
