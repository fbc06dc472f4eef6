"""Classes `retained` and `kv`: last values of topics, and keys of buckets, while brokers crash, join and restart.

Some clients subscribe to everything with the last values from the beginning, others begin and end such subscriptions
while others publish. In `kv` all topics are keys, and most writes say at which revision they expect their key. Brokers
fail within the fault model, or join, are killed all at once and return with their disks (`durable = "journal"`), or are
restarted one by one.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import STACK_OPTIONS, draw_scenario
from resprout.scenario.model import (
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    Scenario,
    SubscriptionSpec,
    ValueOptions,
    WorkloadSpec,
    random_for,
)
from resprout.sim.classes.logs import killed_at_once
from resprout.sim.mishaps import with_blows
from resprout.sim.run import Trial, formed_us

BROKERS_MAX: Final = 8
CLIENTS_MAX: Final = 6
OPERATIONS_MAX: Final = 40
REACH_US: Final = 50_000
TIME_LIMIT_US: Final = 1_800_000_000
OPTIONS: Final = {**STACK_OPTIONS, "faults_tolerated": (1, 1, 1, 2)}
MISHAPS: Final = ("blows", "blows", "blows", "joins", "joins", "blackout", "blackout", "restart")
MIXES: Final = (
    Mix(total=1.0), Mix(total=1.0), Mix(causal=0.3, total=0.7), Mix(eventual=0.2, fifo=0.2, total=0.6),
)  # fmt: skip
TOPICS: Final = ("lamp", "lamp/a", "lamp/b", "door/a", "door/b", "$ops/x")
KEYS: Final = ("$kv/cfg/a", "$kv/cfg/b", "$kv/cfg/b/c", "$kv/other/a")


def retained(seed: int) -> Trial:
    return _trial(seed, "retained", TOPICS, ("lamp/#", "door/+", "#", "lamp/a"))


def kv(seed: int) -> Trial:
    return _trial(seed, "kv", KEYS, ("$kv/#", "$kv/cfg/#", "$kv/+/a", "$kv/cfg/a"))


def _trial(seed: int, name: str, names: tuple[str, ...], filters: tuple[str, ...]) -> Trial:
    rng = random_for(seed, name)
    drawn = draw_scenario(
        seed, brokers_max=BROKERS_MAX, clients_max=CLIENTS_MAX, operations_max=OPERATIONS_MAX, reach_us=REACH_US,
        options=OPTIONS,
    )  # fmt: skip
    topics = tuple(rng.sample(names, rng.randint(1, len(names))))
    what = (
        "calm" if len(drawn.brokers) == 1 else rng.choice(("blows", "blows", "blows", "joins", "blackout", "restart"))
    )
    if what == "blackout" or rng.random() < 0.3:
        drawn = msgspec.structs.replace(drawn, options={**drawn.options, "durable": "journal"})
    clients = _clients(rng, drawn, topics, filters)
    works = (_workload(rng, clients, topics),)
    scenario = msgspec.structs.replace(drawn, clients=clients, workloads=works, time_limit_us=TIME_LIMIT_US)
    begin_us = formed_us(scenario)
    if what == "blows":
        return with_blows(rng, scenario, begin_us)
    late = [msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in works]
    scenario = msgspec.structs.replace(scenario, workloads=tuple(late))
    if what == "joins":
        return Trial(_with_joins(rng, scenario, begin_us))
    if what == "blackout":
        return killed_at_once(rng, Trial(scenario), begin_us)
    if what == "restart":
        brokers = [broker.name for broker in scenario.brokers]
        chosen = tuple(rng.sample(brokers, rng.choice((1, len(brokers)))))
        restart = FaultSpec(begin_us + rng.randint(0, 1_500_000), FaultKind.RESTART, chosen)
        scenario = msgspec.structs.replace(scenario, faults=(restart,))
    return Trial(scenario)


def _clients(rng: Random, drawn: Scenario, topics: tuple[str, ...], filters: tuple[str, ...]) -> tuple[ClientSpec, ...]:
    """The first client has every topic, each in a subscription of its own, so that the judge knows all places."""
    clients = []
    for number, client in enumerate(drawn.clients):
        wanted = topics if number == 0 else rng.sample(filters, rng.choice((0, 1, 1, 2)))
        rows = tuple(
            [SubscriptionSpec(one, retained=number == 0 or rng.random() < 0.7) for one in dict.fromkeys(wanted)]
        )
        clients.append(msgspec.structs.replace(client, subscriptions=rows))
    return tuple(clients)


def _workload(rng: Random, clients: tuple[ClientSpec, ...], topics: tuple[str, ...]) -> WorkloadSpec:
    working = sorted(rng.sample(range(len(clients)), rng.randint(1, len(clients))))
    interval_us = rng.choice((200, 2_000, 20_000, 100_000))
    return WorkloadSpec(
        kind="values",
        clients=tuple(clients[i].name for i in working),
        topics=topics,
        operations=rng.randint(1, OPERATIONS_MAX),
        mix=rng.choice(MIXES),
        interval_us=interval_us,
        payload=rng.choice((1, 32, 32, 2_000)),
        start_us=rng.choice((0, 0, rng.randint(0, 2_000_000))),
        window=rng.choice((0, 0, 1, 5)),
        options=ValueOptions(
            reads=rng.choice((0.0, 0.3, 0.8)),
            conditions=rng.choice((0.3, 0.8, 1.0)),
            removals=rng.choice((0.0, 0.15, 0.4)),
            churn=rng.choice((0.0, 0.3, 0.8)),
            burst=rng.choice((1, 1, 1, 4)),
        ),
    )


def _with_joins(rng: Random, scenario: Scenario, begin_us: int) -> Scenario:
    """Let brokers join while clients work. Some clients wait for those, and begin there with the last values."""
    brokers = [broker.name for broker in scenario.brokers]
    faults: list[FaultSpec] = []
    at_us = begin_us
    for number in range(rng.randint(1, 4)):
        at_us += rng.randint(0, 1_500_000)
        name, parent = f"n{number}", rng.choice(brokers)
        faults.append(FaultSpec(at_us, FaultKind.JOIN, (name,), parent=parent, latency_us=rng.randint(0, REACH_US)))
    newcomers = [fault.nodes[0] for fault in faults]
    clients = [
        msgspec.structs.replace(client, broker=rng.choice(newcomers)) if place and rng.random() < 0.5 else client
        for place, client in enumerate(scenario.clients)
    ]
    return msgspec.structs.replace(scenario, clients=tuple(clients), faults=tuple(faults))
