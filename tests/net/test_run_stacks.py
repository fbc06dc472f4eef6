"""Stacks beside the default one, with real processes: the same scenarios, the same judge."""

import asyncio

import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import Verdict, lines
from resprout.net.run.coordinator import ProcessRunResult, RealRun
from resprout.scenario.load import load_scenario
from resprout.stacks.stack import find_stack
from tests.net.arrived import assert_everything_arrived

ROW = ["topology.brokers=6", 'client.1.broker="b3"', 'client.2.broker="b5"']
"""Six in a row are a neighbourhood and those beyond it, and start in half the time of ten."""

GINGER = [
    'stack="ginger"',
    "options={total_degree=3, timer_us=1_000_000}",
    "workload.0.operations=12",
    "workload.0.start=5s",
]


def run(name: str, changes: list[str]) -> tuple[ProcessRunResult, Verdict]:
    scenario = load_scenario(name, changes)
    stack = find_stack(scenario.stack)
    result = asyncio.run(RealRun(scenario).finish())
    verdict = judge(result.rows, bank_initial=scenario.bank_initial, promise=stack.promise())
    excused = [anomaly for anomaly in verdict.anomalies if anomaly.rule in stack.known_anomalies]
    assert len(verdict.anomalies) == len(excused), "\n".join(lines(verdict))
    assert result.ended == "quiescent"
    return result, verdict


def nodes(result: ProcessRunResult, kind: str) -> list[str]:
    return [row.node for row in result.rows if row.kind == kind]


def test_ginger_serves_a_bank() -> None:
    _, verdict = run("bank", [*GINGER, "workload.0.interval=20ms"])
    assert_everything_arrived(verdict, 5 * 12, 5)


def test_ginger_repairs_its_tree_when_a_broker_is_killed_and_takes_it_in_when_it_returns() -> None:
    faults = 'fault=[{at="5500ms", kind="crash", nodes=["b1"]}, {at="7500ms", kind="recover", nodes=["b1"]}]'
    result, verdict = run("recover", [*GINGER, faults])
    assert nodes(result, "recover") == ["b1"]
    assert {"b4", "b5"} <= set(nodes(result, "repair_end")), "both orphans have a parent"
    assert_everything_arrived(verdict, 5 * 12, 5)


def test_flood_reaches_everybody_in_a_chain() -> None:
    work = '{kind="random", topics=["line/up", "line/down"], operations=30, mix={eventual=1.0}, start="4s"}'
    _, verdict = run("chain", [*ROW, 'stack="flood"', "options={}", f"workload=[{work}]"])
    assert verdict.counts["publications"] == 90 and verdict.counts["deliveries"] > 180


@pytest.mark.parametrize("stack", ["cbcast", "causal-barriers"])
def test_a_causal_multicast_keeps_causal_order_in_a_chain(stack: str) -> None:
    work = '{kind="random", topics=["line/up", "line/down"], operations=30, mix={causal=0.8, fifo=0.2}, start="4s"}'
    _, verdict = run("chain", [*ROW, f'stack="{stack}"', "options={}", f"workload=[{work}]"])
    assert verdict.counts["publications"] == 90 and verdict.counts["deliveries"] > 180


@pytest.mark.parametrize("stack", ["cbcast", "causal-barriers"])
def test_a_causal_multicast_goes_around_a_broker_that_is_killed_and_takes_it_in_when_all_is_quiet(stack: str) -> None:
    work = (
        '{kind="random", topics=["line/up", "line/down"], operations=40, mix={causal=1.0}, start="4s", interval="50ms"}'
    )
    later = work.replace("operations=40", "operations=5").replace('start="4s"', 'start="9s"')
    faults = 'fault=[{at="5s", kind="crash", nodes=["b3"]}, {at="7500ms", kind="recover", nodes=["b3"]}]'
    result, verdict = run("chain", [*ROW, f'stack="{stack}"', "options={}", f"workload=[{work}, {later}]", faults])
    assert nodes(result, "crash") == nodes(result, "recover") == ["b3"]
    assert verdict.counts["publications"] == 135


DELTA = 'mix={fifo=0.7, eventual=0.3}, start="4s", interval="50ms"'


def test_delta_routes_and_confirms_in_a_chain() -> None:
    work = f'{{kind="random", topics=["line/up", "line/down"], operations=30, {DELTA}}}'
    _, verdict = run("chain", [*ROW, 'stack="delta"', "options={}", f"workload=[{work}]"])
    assert verdict.counts["publications"] == 90 and verdict.counts["deliveries"] > 180


def test_delta_goes_around_a_broker_that_is_killed_and_tells_it_what_it_missed_when_it_returns() -> None:
    work = f'{{kind="random", topics=["line/up", "line/down"], operations=60, {DELTA}}}'
    faults = 'fault=[{at="5s", kind="crash", nodes=["b3"]}, {at="6s", kind="recover", nodes=["b3"]}]'
    result, verdict = run("chain", [*ROW, 'stack="delta"', "options={}", f"workload=[{work}]", faults])
    back = next(row.time_us for row in result.rows if row.kind == "recover")
    assert any(row.kind == "joined" and row.node == "b3" and row.time_us > back for row in result.rows)
    assert verdict.counts["publications"] == 180


LOCAMU = (
    'workload=[{kind="random", topics=["line/up", "line/down"], operations=40, mix={causal=1.0}, start="4s", '
    'interval="50ms"}]'
)


def test_locamu_keeps_causal_order_in_a_chain() -> None:
    _, verdict = run("chain", [*ROW, 'stack="locamu"', "options={}", LOCAMU])
    assert verdict.counts["publications"] == 120 and verdict.counts["deliveries"] > 240


def test_locamu_goes_around_a_broker_that_is_killed() -> None:
    """One that has no clients, which would wait for it."""
    fault = 'fault=[{at="5s", kind="crash", nodes=["b2"]}]'
    result, verdict = run("chain", [*ROW, 'stack="locamu"', "options={}", LOCAMU, fault])
    assert nodes(result, "crash") == ["b2"]
    assert verdict.counts["publications"] == 120 and verdict.counts["deliveries"] > 240


def test_locamu_takes_a_broker_back_with_what_was_on_its_disk() -> None:
    faults = 'fault=[{at="5s", kind="crash", nodes=["b3"]}, {at="6s", kind="recover", nodes=["b3"]}]'
    result, verdict = run("chain", [*ROW, 'stack="locamu"', "options={}", LOCAMU, faults])
    assert nodes(result, "recover") == ["b3"]
    assert verdict.counts["publications"] == 120


GOSSIP = [
    'stack="gossip"',
    "options={}",
    'topology={kind="flat", brokers=6, latency="5ms", contacts=2, clients_per_broker=0}',
]
HERE = 'client=[{name="head", broker="b0", subscribe=["line/#"]}, {name="tail", broker="b5", subscribe=["line/#"]}]'


def gossip(*faults: str) -> list[str]:
    topics = 'topics=["line/up", "line/down"]'
    work = f'{{kind="random", {topics}, operations=40, mix={{eventual=1.0}}, start="4s", interval="50ms"}}'
    return [*GOSSIP, HERE, f"workload=[{work}]", f"fault=[{', '.join(faults)}]"]


def test_gossip_reaches_everybody() -> None:
    _, verdict = run("chain", gossip())
    assert verdict.counts["publications"] == 80 and verdict.reliability == 1.0


def test_gossip_goes_on_when_brokers_are_killed_and_one_of_them_returns() -> None:
    faults = ('{at="5s", kind="crash", nodes=["b2", "b3"]}', '{at="6s", kind="recover", nodes=["b3"]}')
    result, verdict = run("chain", gossip(*faults))
    assert nodes(result, "crash") == ["b2", "b3"] and nodes(result, "recover") == ["b3"]
    assert verdict.reliability == 1.0, "nobody with a client died"


def test_gossip_serves_the_clients_of_a_broker_that_was_killed() -> None:
    result, verdict = run("chain", gossip('{at="5s", kind="crash", nodes=["b5"]}'))
    late = [row.node for row in result.rows if row.kind == "deliver" and row.seq == 40]
    assert sorted(late) == ["head", "head", "tail", "tail"]
    assert verdict.reliability is not None and verdict.reliability > 0.8


def scribe(*faults: str) -> list[str]:
    topics = 'topics=["market/tea", "market/silk", "news"]'
    mix = "mix={eventual=0.3, total=0.7}"
    work = f'{{kind="random", {topics}, operations=12, {mix}, start="5s", interval="50ms"}}'
    return ["topology.brokers=5", 'client.1.broker="b4"', f"workload=[{work}]", f"fault=[{', '.join(faults)}]"]


def test_scribe_gives_every_topic_one_order() -> None:
    _, verdict = run("scribe", scribe())
    assert verdict.counts["publications"] == 84 and verdict.counts["deliveries"] > 300


def test_scribe_loses_nothing_when_a_broker_is_killed_and_takes_it_back() -> None:
    faults = ('{at="5200ms", kind="crash", nodes=["b3"]}', '{at="6s", kind="recover", nodes=["b3"]}')
    result, verdict = run("scribe", scribe(*faults))
    assert nodes(result, "crash") == ["b3"] and nodes(result, "recover") == ["b3"]
    assert verdict.counts["publications"] == 84
    back = next(row.time_us for row in result.rows if row.kind == "recover")
    assert any(row.kind == "joined" and row.node == "b3" and row.time_us > back for row in result.rows)
