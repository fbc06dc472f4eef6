"""Durable subscriptions in the virtual world: consumers and brokers die, also all brokers at once."""

import random
from collections.abc import Callable

import msgspec
import pytest

from resprout.audit.judge import judge
from resprout.audit.verdict import CLEAN, lines
from resprout.edge.broker.portion import DropCount
from resprout.journal.spill import SpillSegments
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.scenario.source import ScenarioError
from resprout.scenario.write import to_toml
from resprout.sim.classes.clients import unread
from resprout.sim.classes.durable import consumers
from resprout.sim.run import Trial, run_scenario
from resprout.sim.swarm import try_seed
from resprout.trace.schema import Row
from tests.soak import cases

SCENARIO = "durable"
SPILLING = 'client.2.subscribe=[{filter="orders/#", durable="billing", when_full="spill"}]'
BROKERS = ("b0", "b1", "b2", "b3", "b4")
CONSUMERS = ("billing-1", "worker-1", "worker-2", "worker-3")


def run(scenario: Scenario) -> list[Row]:
    result = run_scenario(scenario)
    assert result.ended == "quiescent"
    verdict = judge(result.rows)
    assert not verdict.violated, "\n".join(lines(verdict))
    assert verdict.check("durable").status == CLEAN and not verdict.check("durable").reason
    return list(result.rows)


def handed(rows: list[Row], durable: str, **more: str) -> set[tuple[str | None, str | None, int | None]]:
    return {
        (row.publisher, row.stream, row.seq)
        for row in rows
        if row.kind == "handed" and (row.attributes or {}).items() >= {"durable": durable, **more}.items()
    }


def crash(at_ms: int, *nodes: str) -> FaultSpec:
    return FaultSpec(at_ms * 1_000, FaultKind.CRASH, nodes)


def recover(at_ms: int, *nodes: str, found: bool = False) -> FaultSpec:
    return FaultSpec(at_ms * 1_000, FaultKind.RECOVER, nodes, found=found)


def with_faults(scenario: Scenario, faults: list[FaultSpec], **more: object) -> Scenario:
    in_time = tuple(sorted(faults, key=lambda fault: fault.at_us))
    return msgspec.structs.replace(scenario, faults=in_time, **more)


def test_the_ready_made_scenario_hands_out_everything_over_all_deaths() -> None:
    rows = run(load_scenario(SCENARIO))
    assert len(handed(rows, "billing")) == len(handed(rows, "workers")) == 200
    assert any(row.kind == "durable" and row.node != "b3" for row in rows)
    assert handed(rows, "workers", redelivered="yes")


@pytest.mark.parametrize("spills", [False, True])
def test_all_brokers_are_killed_at_once_and_durable_subscriptions_go_on_also_without_a_consumer(
    spills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stowed: list[int] = []
    put = SpillSegments.put

    def counted(store: SpillSegments, content: bytes) -> int | None:
        stowed.append(len(content))
        return put(store, content)

    monkeypatch.setattr(SpillSegments, "put", counted)
    more = [SPILLING, "options.log_bytes=4096"] if spills else []
    scenario = load_scenario(SCENARIO, ['options.durable="journal"', *more])
    faults = [
        crash(2_000, "billing-1"),
        crash(3_000, *BROKERS),
        recover(4_000, "b0", found=True),
        recover(4_100, *BROKERS[1:]),
        recover(30_000, "billing-1"),
    ]
    rows = run(with_faults(scenario, faults))
    assert len(handed(rows, "billing")) == len(handed(rows, "workers")) == 200
    assert bool(stowed) == spills


def test_what_is_done_at_a_broker_that_is_cut_off_is_not_handed_out_again_by_the_next_one() -> None:
    """Nobody else has heard of it but the consumer, and after that one's death the next consumer."""
    scenario = load_scenario(SCENARIO, ['client.2.reading="100ms"', "workload.0.operations=60"])
    apart = FaultSpec(2_000_000, FaultKind.PARTITION, ("b3", "billing-1", "worker-3"))
    heal = FaultSpec(15_000_000, FaultKind.HEAL)
    rows = run(with_faults(scenario, [apart, crash(2_900, "billing-1"), recover(3_200, "billing-1"), heal]))
    assert len(handed(rows, "billing")) == 120
    moved_us = max(row.time_us for row in rows if row.kind == "durable" and "billing" in (row.detail or ""))
    mine = [row for row in rows if (row.attributes or {}).get("durable") == "billing" and row.node == "billing-1"]
    done = {
        (row.publisher, row.stream, row.seq) for row in mine if row.kind == "acknowledged" and row.time_us < moved_us
    }
    again = {(row.publisher, row.stream, row.seq) for row in mine if row.kind == "handed" and row.time_us > moved_us}
    assert len(done) > 5 and not done & again


@pytest.mark.parametrize("block", range(cases(1, 24)))
def test_over_drawn_deaths_nothing_is_lost_and_repeats_say_so(block: int) -> None:
    for seed in range(block * 3, block * 3 + 3):
        rng = random.Random(f"durable subscriptions {seed}")
        faults: list[FaultSpec] = []
        at_ms = rng.randint(1_000, 2_500)
        for _ in range(rng.randint(1, 4)):
            node = rng.choice((*CONSUMERS, *BROKERS))
            faults += [crash(at_ms, node), recover(at_ms + rng.choice((100, 4_000, 9_000)), node)]
            at_ms = faults[-1].at_us // 1_000 + rng.randint(6_000, 12_000) if node in BROKERS else at_ms + 700
        scenario = load_scenario(SCENARIO, [f"seed={seed}", "workload.0.operations=60"])
        run(with_faults(scenario, faults, time_limit_us=300_000_000))


def test_a_durable_subscription_survives_being_written_down() -> None:
    for more in ([], [SPILLING]):
        scenario = load_scenario(SCENARIO, more)
        assert parse_scenario(to_toml(scenario)) == scenario


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ('stack="ginger"', "does not offer durable subscriptions"),
        ('workload.0.clients=["shop", "worker-1"]', "consumes a durable subscription, and does nothing else"),
        ('client.2.subscribe=[{filter="a", group=true}]', "a group shares a durable subscription"),
        ('client.2.subscribe=["b", {filter="a", durable="d"}]', "does nothing else"),
        ('client.2.subscribe=[{filter="a", durable="with a blank"}]', "refused"),
        ('client.2.subscribe=[{filter="a", when_full="spill"}]', "give its name, `durable`"),
        ('client.2.subscribe=[{filter="a", durable="d", when_full="spil"}]', "unknown when_full 'spil'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(override: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason):
        load_scenario(SCENARIO, [override, "options={}"] if "stack" in override else [override])


SPILL_CRASH = """
seed = 80
time_limit = "900s"
options = { faults_tolerated = 1, log_bytes = 65536 }
broker = [
    { name = "b0" },
    { name = "b1", parent = "b0", latency = "300us" },
    { name = "b2", parent = "b0", latency = "300us" },
]
client = [
    { name = "p0", broker = "b2" },
    { name = "d1", broker = "b1", subscribe = [{ filter = "jobs/#", durable = "ss", when_full = "spill" }] },
]
fault = [
    { at = "15s", kind = "freeze", nodes = ["d1"] },
    { at = "17956ms", kind = "crash", nodes = ["b0"] },
    { at = "24s", kind = "unfreeze", nodes = ["d1"] },
]
[[workload]]
kind = "random"
clients = ["p0"]
topics = ["jobs/a", "jobs/b"]
keys = 3
keys_max = 1
start = "5s"
operations = 289
interval = "55ms"
payload = 1000
payload_min = 20
mix = { eventual = 0.2, fifo = 0.2, causal = 0.5, total = 0.1 }
"""


def test_a_broker_dies_while_a_subscription_spills_and_nothing_is_lost() -> None:
    rows = run(parse_scenario(SPILL_CRASH))
    assert len(handed(rows, "ss")) == 289


GROUP_BUNDLE = """
seed = 1
time_limit = "100s"
options = { faults_tolerated = 1 }
broker = [{ name = "b0" }, { name = "b1", parent = "b0" }, { name = "b2", parent = "b0" }]
client = [
    { name = "p", broker = "b0" },
    { name = "w0", broker = "b1", reading = "20s", subscribe = [{ filter = "t", durable = "g", group = true }] },
    { name = "w1", broker = "b1", latency = "200us", subscribe = [{ filter = "t", durable = "g", group = true }] },
    { name = "w2", broker = "b2", subscribe = [{ filter = "t", durable = "g", group = true }] },
]
fault = [
    { at = "1us", kind = "crash", nodes = ["w2"] },
    { at = "20s", kind = "leave", nodes = ["w1"] },
    { at = "30s", kind = "crash", nodes = ["b1"] },
    { at = "40s", kind = "recover", nodes = ["w2"] },
]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["t"]
keys = 0
keys_max = 0
burst = 4
operations = 4
interval = "100ms"
start = "3s"
"""


@pytest.mark.parametrize("all_stop", [False, True])
def test_what_a_group_has_acknowledged_inside_a_bundle_is_known_when_its_broker_dies(all_stop: bool) -> None:
    """Also from disk: all brokers stop instead of one."""
    scenario = parse_scenario(GROUP_BUNDLE)
    if all_stop:
        names = tuple([broker.name for broker in scenario.brokers])
        gone = [crash(30_000, *names), crash(30_000, "w0"), recover(31_000, "b0", found=True)]
        back = [recover(31_100, "b1", "b2"), recover(40_000, "w2")]
        options = {**scenario.options, "durable": "journal"}
        scenario = with_faults(scenario, [*scenario.faults[:2], *gone, *back], options=options)
    rows = run(scenario)
    done = {row.seq for row in rows if row.kind == "acknowledged" and row.time_us < 30_000_000}
    again = {row.seq for row in rows if row.kind == "handed" and row.time_us > 30_000_000}
    assert len(done) == 3 and not done & again
    assert handed(rows, "g") == {("p", "ordered", seq) for seq in range(1, 5)}


DROPPING = """
seed = 5
time_limit = "300s"
topology = { kind = "chain", brokers = 4, latency = "1ms", clients_per_broker = 1 }
client = [CONSUMERS]

[[workload]]
kind = "random"
clients = ["c0", "c1", "c2", "c3"]
topics = ["a/b"]
operations = 40
interval = "100ms"
start = "3s"
"""


def dropping(count: int, *faults: FaultSpec) -> Scenario:
    """A durable subscription that keeps 3 messages for slow consumers; several of them are a group."""
    group = str(count > 1).lower()
    wanted = f'{{ filter = "a/#", durable = "s", group = {group}, when_full = "drop_oldest", max_pending = 3 }}'
    clients = [
        f'{{ name = "d{i}", broker = "b{3 - i}", reading = "300ms", subscribe = [{wanted}] }}' for i in range(count)
    ]
    return with_faults(parse_scenario(DROPPING.replace("CONSUMERS", ", ".join(clients))), list(faults))


def dropped(rows: list[Row]) -> int:
    """How many messages consumers were told to be dropped."""
    return max([int((row.attributes or {})["dropped"]) for row in rows if row.kind == "drops_told"], default=0)


@pytest.mark.parametrize("count", [1, 2])
def test_every_message_is_handed_out_or_told_to_be_dropped(count: int) -> None:
    rows = run(dropping(count))
    told = dropped(rows)
    assert told > 50 and len(handed(rows, "s")) + told == 160


@pytest.mark.parametrize("count", [1, 2])
def test_dropped_messages_are_told_also_when_the_home_and_a_consumer_die(count: int) -> None:
    rows = run(dropping(count, crash(4_500, "d0"), crash(5_000, "b3"), recover(6_000, "d0")))
    told = dropped(rows)
    assert told > 50 and len(handed(rows, "s")) + told >= 160


def test_a_message_heavier_than_the_share_is_handed_out_so_that_drops_before_it_are_told() -> None:
    """The latest message stays, or nobody would ever be told of those before it."""
    scenario = dropping(1)
    heavy = msgspec.structs.replace(scenario.workloads[0], payload=5_000)
    rows = run(msgspec.structs.replace(scenario, workloads=(heavy,), options={"subscriber_bytes": 4_096}))
    told = dropped(rows)
    assert told > 50 and len(handed(rows, "s")) + told == 160


DROPPING_GROUP = """
seed = 1
time_limit = "100s"
options = { faults_tolerated = 1 }
broker = [{ name = "b0" }, { name = "b1", parent = "b0", latency = "400ms" }, { name = "b2", parent = "b0" }]
client = [{ name = "p", broker = "b0" }, CONSUMERS]
fault = [
    { at = "20800ms", kind = "freeze", nodes = ["w0"] },
    { at = "20800ms", kind = "crash", nodes = ["b1", "w1"] },
    { at = "25s", kind = "unfreeze", nodes = ["w0"] },
    { at = "60s", kind = "recover", nodes = ["w1"] },
]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["t"]
keys = 0
operations = 4
interval = "50ms"
start = "20050ms"
"""


def test_the_next_home_drops_nothing_before_the_consumers_of_the_last_one_return() -> None:
    """One consumer dies with the home, and has one message. The other one has acknowledged the other three, and only it
    knows: so one message waits, which is not too many."""
    wanted = '{ filter = "t", durable = "g", group = true, when_full = "drop_oldest", max_pending = 1 }'
    clients = [
        f'{{ name = "w0", broker = "b1", subscribe = [{wanted}] }}',
        f'{{ name = "w1", broker = "b1", latency = "200us", reading = "20s", subscribe = [{wanted}] }}',
    ]
    rows = run(parse_scenario(DROPPING_GROUP.replace("CONSUMERS", ", ".join(clients))))
    done = {row.seq for row in rows if row.kind == "acknowledged" and row.time_us < 20_800_000}
    assert len(done) == 3
    assert {row.seq for row in rows if row.kind == "acknowledged"} == {1, 2, 3, 4}
    assert not dropped(rows)


AWAITED = """
seed = 1
time_limit = "100s"
options = { faults_tolerated = 1 }
broker = [{ name = "b0" }, { name = "b1", parent = "b0" }, { name = "b2", parent = "b0" }]
client = [{ name = "p", broker = "b0" }, CONSUMERS]
fault = [{ at = "20800ms", kind = "crash", nodes = ["b1", "w1"] }]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["t"]
keys = 0
operations = 4
interval = "50ms"
start = "20050ms"
"""


def test_a_run_goes_on_until_a_home_has_waited_long_enough_for_consumers_that_are_gone() -> None:
    """What a consumer had that died with the home is handed to the other one four leases later."""
    wanted = '{ filter = "t", durable = "g", group = true }'
    clients = [
        f'{{ name = "w0", broker = "b1", subscribe = [{wanted}] }}',
        f'{{ name = "w1", broker = "b1", latency = "200us", reading = "20s", subscribe = [{wanted}] }}',
    ]
    rows = run(parse_scenario(AWAITED.replace("CONSUMERS", ", ".join(clients))))
    assert any(row.kind == "handed" and row.node == "w1" for row in rows)
    assert {row.seq for row in rows if row.kind == "acknowledged" and row.node == "w0"} == {1, 2, 3, 4}


def test_a_home_counts_dropped_messages_on_from_what_the_last_home_told_a_consumer() -> None:
    """The last home had dropped two, told its consumer and no other broker, and died. The consumer said that they were
    done with; the next home counted from 0."""
    outcome = try_seed(94103138, "unread", check_period=0)
    assert not outcome.failed, outcome.report


DROPPING_INSIDE = """
seed = 1
time_limit = "100s"
broker = [{ name = "b0" }]
client = [
    { name = "p", broker = "b0" },
    { name = "d", broker = "b0", subscribe = [
        { filter = "t", durable = "s", when_full = "drop_oldest", max_pending = 3 } ] },
]
[[workload]]
kind = "random"
clients = ["p"]
topics = ["t"]
keys = 0
keys_max = 0
burst = 8
operations = 8
start = "3s"
"""


def test_messages_have_their_receipts_at_the_end_although_others_of_their_bundle_were_dropped() -> None:
    """The receipts wait until other brokers are told of the drops, also in a run without faults."""
    rows = run(parse_scenario(DROPPING_INSIDE))
    assert len(handed(rows, "s")) == 3


def test_a_dropped_message_of_which_nobody_is_told_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DropCount, "untold", 0)
    verdict = judge(run_scenario(dropping(1)).rows)
    assert "durable" in {anomaly.rule for anomaly in verdict.anomalies}


def test_a_scenario_that_drops_is_written_as_it_is_read() -> None:
    scenario = dropping(2)
    assert parse_scenario(to_toml(scenario), scenario.name) == scenario
    with pytest.raises(ScenarioError, match='only a subscription with when_full = "drop_oldest"'):
        parse_scenario(
            DROPPING.replace(
                "CONSUMERS",
                '{ name = "d", broker = "b0", subscribe = [{ filter = "a", durable = "s", max_pending = 3 }] }',
            )
        )


@pytest.mark.parametrize(("draw", "first"), [(consumers, 83_301_000), (unread, 83_304_000)])
def test_swarms_draw_durable_subscriptions_and_groups_that_drop_the_oldest(
    draw: Callable[[int], Trial], first: int
) -> None:
    clients = [client for seed in range(first, first + 12) for client in draw(seed).scenario.clients]
    drawn = [client.consumes for client in clients if client.consumes is not None]
    assert {wanted.group for wanted in drawn if wanted.when_full == "drop_oldest" and wanted.max_pending} == {
        False,
        True,
    }
