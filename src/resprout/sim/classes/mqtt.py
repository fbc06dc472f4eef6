"""Class `mqtt`: MQTT clients beside native ones, with sessions of QoS 1 and 2, while brokers crash, freeze or restart.

Sessions outlive their brokers, so nothing may be lost, and nothing with QoS 2 may come twice. Some MQTT clients crash
or freeze, too; one that crashes begins a new session.
"""

from random import Random
from typing import Final

import msgspec

from resprout.filters.predicate import topic_matches
from resprout.scenario.draw import STACK_OPTIONS, draw_scenario
from resprout.scenario.model import (
    MQTT,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
    random_for,
)
from resprout.sim.mishaps import with_blows
from resprout.sim.run import Trial, formed_us

BROKERS_MAX: Final = 8
CLIENTS_MAX: Final = 6
OPERATIONS_MAX: Final = 40
REACH_US: Final = 50_000
TIME_LIMIT_US: Final = 1_800_000_000
OPTIONS: Final = {**STACK_OPTIONS, "faults_tolerated": (1, 1, 1, 2)}
MISHAPS: Final = ("blows", "blows", "blows", "blows", "restart", "calm")
MIXES: Final = (
    Mix(causal=1.0), Mix(causal=1.0), Mix(causal=0.7, total=0.3), Mix(eventual=0.2, fifo=0.4, causal=0.4),
)  # fmt: skip
TOPICS: Final = ("lamp", "lamp/a", "lamp/b", "door/a", "door/b/c")
FILTERS: Final = ("lamp/#", "+/a", "#", "lamp/a", "door/+/c")
SERVING_US: Final = 2_000_000
"""Time after which brokers serve MQTT clients, and these have subscribed, unless something has happened."""


def mqtt(seed: int) -> Trial:
    rng = random_for(seed, "mqtt")
    drawn = draw_scenario(
        seed, brokers_max=BROKERS_MAX, clients_max=CLIENTS_MAX, operations_max=OPERATIONS_MAX, reach_us=REACH_US,
        options=OPTIONS,
    )  # fmt: skip
    clients = tuple([_client(rng, client, number) for number, client in enumerate(drawn.clients)])
    works = (_workload(rng, clients),)
    scenario = msgspec.structs.replace(drawn, clients=clients, workloads=works, time_limit_us=TIME_LIMIT_US)
    begin_us = formed_us(scenario) + SERVING_US
    scenario = msgspec.structs.replace(scenario, faults=_absences(rng, scenario, begin_us))
    what = "calm" if len(drawn.brokers) == 1 else rng.choice(MISHAPS)
    if what == "blows":
        return with_blows(rng, scenario, begin_us)
    late = [msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in works]
    faults = scenario.faults
    if what == "restart":
        brokers = [broker.name for broker in scenario.brokers]
        chosen = tuple(rng.sample(brokers, rng.choice((1, len(brokers)))))
        faults = (*faults, FaultSpec(begin_us + rng.randint(0, 1_500_000), FaultKind.RESTART, chosen))
    ordered = tuple(sorted(faults, key=lambda fault: fault.at_us))
    return Trial(msgspec.structs.replace(scenario, workloads=tuple(late), faults=ordered))


def _client(rng: Random, client: ClientSpec, number: int) -> ClientSpec:
    """The first client speaks MQTT, and most others do."""
    wanted = tuple(
        [SubscriptionSpec(one) for one in rng.sample(FILTERS, rng.choice((0, 1, 1, 2) if number else (1, 2)))]
    )
    if number and rng.random() < 0.3:
        return ClientSpec(client.name, client.broker, client.latency_us, wanted)
    return ClientSpec(client.name, client.broker, client.latency_us, wanted, protocol=MQTT, qos=rng.choice((1, 2, 2)))


def _workload(rng: Random, clients: tuple[ClientSpec, ...]) -> WorkloadSpec:
    filters = {one.filter for client in clients for one in client.subscriptions}
    heard = [topic for topic in TOPICS if any(topic_matches(one, topic) for one in filters)]
    return WorkloadSpec(
        kind="random",
        clients=tuple([client.name for client in clients]),
        topics=tuple(rng.sample(heard, rng.randint(1, len(heard)))),
        operations=rng.randint(1, OPERATIONS_MAX),
        mix=rng.choice(MIXES),
        interval_us=rng.choice((200, 2_000, 20_000, 100_000)),
        payload=rng.choice((1, 32, 32, 2_000)),
        start_us=rng.choice((0, 0, rng.randint(0, 2_000_000))),
        window=rng.choice((0, 0, 1, 5)),
        options=RandomOptions(burst=rng.choice((1, 1, 1, 4))),
    )


def _absences(rng: Random, scenario: Scenario, from_us: int) -> tuple[FaultSpec, ...]:
    """Some MQTT clients freeze, or crash and return."""
    faults: list[FaultSpec] = []
    for client in scenario.clients:
        if client.protocol != MQTT or rng.random() < 0.75:
            continue
        at_us = from_us + rng.randint(0, 2_000_000)
        back_us = at_us + rng.choice((1, rng.randint(1, 3_000_000), rng.randint(1, 20_000_000)))
        kinds = ((FaultKind.FREEZE, FaultKind.UNFREEZE), (FaultKind.CRASH, FaultKind.RECOVER))
        went, came = rng.choice(kinds)
        faults += [FaultSpec(at_us, went, (client.name,)), FaultSpec(back_us, came, (client.name,))]
    return tuple(sorted(faults, key=lambda fault: fault.at_us))
