"""Whole scenarios with the real protocol: rows, faults that sessions must survive, and repeatability."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from resprout.core.errors import UsageError
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
)  # fmt: skip
from resprout.sim.run import FaultAtEvent, Run, RunResult, run_scenario
from resprout.sim.swarm import complaint_about
from resprout.trace import kinds
from resprout.trace.schema import Row
from tests.patience import PATIENCE_S
from tests.soak import every_nth

TREE = """
name = "a small tree"
seed = 5
time_limit = "60s"
[topology]
kind = "tree"
brokers = 4
degree = 3
latency = "5ms"
clients_per_broker = 1
subscribe = ["a/#"]
[[workload]]
kind = "random"
topics = ["a/x", "a/y"]
operations = 20
mix = { eventual = 0.2, fifo = 0.3, causal = 0.5 }
interval = "10ms"
start = "200ms"
"""


def scenario(faults: str = "") -> Scenario:
    return parse_scenario(TREE + faults)


def fault(at: str, kind: str, nodes: str = "", more: str = "") -> str:
    named = f"nodes = {nodes}\n" if nodes else ""
    return f'[[fault]]\nat = "{at}"\nkind = "{kind}"\n{named}{more}\n'


def of_kind(result: RunResult, kind: str, **columns: object) -> list[Row]:
    return [
        row
        for row in result.rows
        if row.kind == kind and all(getattr(row, name) == value for name, value in columns.items())
    ]


def identity(row: Row) -> tuple[object, ...]:
    return (row.publisher, row.incarnation, row.stream, row.seq)


def complete(result: RunResult) -> bool:
    """Whether every client has every publication once, and every publication every receipt."""
    published = {identity(row) for row in of_kind(result, "publish")}
    delivered = Counter((row.node, *identity(row)) for row in of_kind(result, "deliver"))
    wanted = {(f"c{i}", *id_): 1 for i in range(4) for id_ in published}
    receipts = Counter((row.receipt, *identity(row)) for row in of_kind(result, "receipt"))
    turned = {(receipt, *id_): 1 for receipt in ("accepted", "safe", "delivered") for id_ in published}
    return bool(published) and delivered == wanted and receipts == turned


def test_everybody_gets_everything_and_every_receipt_turns() -> None:
    result = run_scenario(scenario())
    assert result.ended == "quiescent"
    assert len(of_kind(result, "publish")) == 80
    assert complete(result)
    assert result.rows[-1] == Row(time_us=result.stats.time_us, node="world", kind="quiescent")


def test_rows_carry_what_was_asked_and_what_was_got() -> None:
    result = run_scenario(scenario())
    publish = of_kind(result, "publish", node="c1")[0]
    assert (publish.publisher, publish.incarnation, publish.seq, publish.payload_bytes) == ("c1", 1, 1, 32)
    assert publish.topic in ("a/x", "a/y")
    assert publish.guarantee in ("eventual", "fifo", "causal")
    (deliver,) = [row for row in of_kind(result, "deliver", node="c2") if identity(row) == identity(publish)]
    assert (deliver.topic, deliver.keys, deliver.guarantee) == (publish.topic, publish.keys, publish.guarantee)
    assert deliver.hops == 2  # c1 and c2 are at different children of the root
    assert deliver.time_us >= publish.time_us + 100 + 2 * 5_000 + 100
    assert [row.position for row in of_kind(result, "deliver", node="c3")] == list(range(80))
    subscribed = of_kind(result, "subscribed", node="c2")
    assert [(row.filter, row.where) for row in subscribed] == [("a/#", None)]
    assert subscribed[0].time_us >= of_kind(result, "subscribe", node="c2")[0].time_us


def test_the_fastest_delivery_takes_exactly_the_distance() -> None:
    result = run_scenario(scenario())
    published = {identity(row): row.time_us for row in of_kind(result, "publish", node="c1")}
    delays = [
        row.time_us - published[identity(row)]
        for row in of_kind(result, "deliver", node="c2")
        if identity(row) in published
    ]
    assert min(delays) == 100 + 2 * 5_000 + 100


def test_times_never_go_back() -> None:
    times = [row.time_us for row in run_scenario(scenario()).rows]
    assert times == sorted(times)


def test_a_link_that_was_cut_and_healed_has_lost_nothing() -> None:
    result = run_scenario(scenario(fault("300ms", "cut", '["b0", "b1"]') + fault("2s", "heal")))
    assert result.ended == "quiescent"
    assert [(row.node, row.detail) for row in of_kind(result, "cut")] == [("b0", "b1")]
    assert complete(result)


def test_a_partition_that_was_healed_has_lost_nothing() -> None:
    result = run_scenario(scenario(fault("300ms", "partition", '["b1", "b2"]') + fault("2s", "heal")))
    assert {row.node for row in of_kind(result, "partition")} == {"b1", "b2", "c1", "c2"}
    assert complete(result)


def test_nodes_that_were_frozen_have_missed_nothing() -> None:
    frozen = '["b0", "c2"]'
    result = run_scenario(scenario(fault("300ms", "freeze", frozen) + fault("900ms", "unfreeze", frozen)))
    assert complete(result)
    assert not [row for row in of_kind(result, "deliver", node="c2") if 300_000 < row.time_us < 900_000]


def test_a_client_that_recovers_is_a_new_incarnation_with_a_new_application() -> None:
    result = run_scenario(scenario(fault("300ms", "crash", '["c1"]') + fault("350ms", "recover", '["c1"]')))
    assert result.ended == "quiescent"
    assert [row.kind for row in result.rows if row.node == "c1" and row.kind in ("crash", "recover")] == [
        "crash",
        "recover",
    ]
    assert {row.incarnation for row in of_kind(result, "publish", node="c1")} == {1, 2}
    assert len(of_kind(result, "subscribed", node="c1")) == 2
    later = [row.position for row in of_kind(result, "deliver", node="c1") if row.time_us > 350_000]
    assert later[0] == 0  # positions begin again


def test_nobody_waits_for_a_client_that_stays_dead() -> None:
    result = run_scenario(scenario(fault("300ms", "crash", '["c1"]')))
    assert result.ended == "quiescent"
    later = {row.kind for row in result.rows if row.node == "c1" and row.time_us > 300_000}
    assert later <= {"crash", "load"}


def test_calling_for_ever_at_a_dead_broker_is_no_reason_to_go_on() -> None:
    result = run_scenario(scenario(fault("1s", "crash", '["b3"]')))
    assert result.ended == "quiescent"


def test_a_broker_that_joins_brings_its_waiting_client_in() -> None:
    waiting = '[[client]]\nname = "late"\nbroker = "b9"\nsubscribe = ["a/#"]\n'
    join = fault("250ms", "join", '["b9"]', 'parent = "b3"\nlatency = "3ms"')
    result = run_scenario(parse_scenario(TREE + waiting + join))
    assert [row.node for row in of_kind(result, "join")] == ["b9"]
    (subscribed,) = of_kind(result, "subscribed", node="late")
    assert subscribed.time_us > 250_000
    owed = [row for row in of_kind(result, "publish") if row.time_us > subscribed.time_us]
    got = {identity(row) for row in of_kind(result, "deliver", node="late")}
    assert owed
    assert all(identity(row) in got for row in owed)


def test_a_client_that_leaves_is_owed_nothing_more_and_has_sent_what_it_published() -> None:
    result = run_scenario(scenario(fault("300ms", "leave", '["c1"]')))
    assert result.ended == "quiescent"
    assert complaint_about(scenario(), result) == ""
    assert {row.kind for row in result.rows if row.node == "c1" and row.time_us > 300_000} <= {"load"}
    sent = {identity(row) for row in of_kind(result, "publish", node="c1")}
    assert sent
    assert sent <= {identity(row) for row in of_kind(result, "deliver", node="c3")}


@pytest.mark.parametrize("broker", ["b0", "b1", "b3"])
def test_a_broker_that_leaves_is_missed_by_nobody(broker: str) -> None:
    run = Run(scenario(fault("300ms", "leave", f'["{broker}"]')), None, ())
    result = run.finish()
    assert result.ended == "quiescent"
    assert of_kind(result, "leave", node=broker)
    assert run.world.nodes[broker].process is None
    assert complaint_about(scenario(), result) == ""


def test_a_run_that_cannot_finish_ends_at_its_time_limit() -> None:
    result = run_scenario(scenario(fault("100us", "crash", '["b0"]')))
    assert result.ended == "timeout"
    assert result.stats.time_us == 60_000_000


def test_a_fault_at_an_event_is_the_same_in_every_run() -> None:
    crash = FaultSpec(0, FaultKind.CRASH, nodes=("c1",))
    one, other = (run_scenario(scenario(), at_events=[FaultAtEvent(1500, crash)]) for _ in range(2))
    assert one.digest == other.digest
    assert len(of_kind(one, "crash", node="c1")) == 1
    assert one.digest != run_scenario(scenario(), at_events=[FaultAtEvent(1600, crash)]).digest


@pytest.mark.parametrize("tenth", every_nth(range(1, 10), 2))
def test_a_client_may_crash_after_any_event(tenth: int) -> None:
    event = run_scenario(scenario()).stats.events * tenth // 10
    crash = FaultSpec(0, FaultKind.CRASH, nodes=("c1",))
    result = run_scenario(scenario(), at_events=[FaultAtEvent(event, crash)])
    assert len(of_kind(result, "crash")) == 1
    assert complaint_about(scenario(), result) == ""


@pytest.mark.parametrize("tenth", every_nth(range(1, 10), 2))
def test_a_broker_may_crash_after_any_event(tenth: int) -> None:
    event = run_scenario(scenario()).stats.events * tenth // 10
    crash = FaultSpec(0, FaultKind.CRASH, nodes=("b1",))
    result = run_scenario(scenario(), at_events=[FaultAtEvent(event, crash)])
    assert len(of_kind(result, "crash", node="b1")) == 1
    assert complaint_about(scenario(), result) == ""


def test_nobody_is_suspected_where_nothing_is_wrong() -> None:
    assert not of_kind(run_scenario(scenario()), "suspect")


def test_an_unknown_option_of_the_stack_is_refused() -> None:
    unknown = Scenario(name="x", brokers=scenario().brokers, options={"speed": 3})
    with pytest.raises(UsageError, match="speed"):
        run_scenario(unknown)


def test_the_same_scenario_gives_the_same_trace_whatever_the_hash_seed() -> None:
    text = TREE + fault("300ms", "cut", '["b0", "b1"]') + fault("1s", "heal") + fault("400ms", "crash", '["c3"]')
    program = (
        "import sys; from resprout.scenario.load import parse_scenario; from resprout.sim.run import run_scenario;"
        "result = run_scenario(parse_scenario(sys.argv[1])); print(result.ended, result.stats.events, result.digest)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, text],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
    result = run_scenario(parse_scenario(text))
    assert outputs == {f"{result.ended} {result.stats.events} {result.digest}\n"}


def test_another_seed_is_another_run() -> None:
    assert run_scenario(scenario()).digest != run_scenario(parse_scenario(TREE, overrides=["seed=6"])).digest


def test_a_client_that_returns_while_its_broker_is_gone_finds_another() -> None:
    brokers = tuple(BrokerSpec(f"b{i}", "b0" if i else None, 1_000) for i in range(3))
    everything = (SubscriptionSpec("#"),)
    clients = (ClientSpec("c0", "b0"), ClientSpec("c1", "b1", subscriptions=everything))
    work = WorkloadSpec("random", ("c0",), ("a",), operations=5, start_us=20_000_000, options=RandomOptions())
    faults = (
        FaultSpec(3_000_000, FaultKind.CRASH, ("c1",)),
        FaultSpec(3_000_000, FaultKind.CRASH, ("b1",)),
        FaultSpec(9_000_000, FaultKind.RECOVER, ("c1",)),
    )
    result = run_scenario(Scenario("gone", brokers, clients=clients, workloads=(work,), faults=faults))
    assert result.ended == "quiescent"
    assert sum(row.kind == kinds.DELIVER and row.node == "c1" for row in result.rows) == 5
