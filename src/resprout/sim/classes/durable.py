"""`consumers` and `spilling`: durable subscriptions whose consumers are slow or die while brokers die.

`consumers`: consumers of durable subscriptions and groups are slow, die and return; brokers die, or all are killed at
once. Most subscriptions spill; some have the oldest dropped. Logs are small, and so are disks, so that much is spilled,
and some finds no room.

`spilling`: logs are so large that entries lie on disk when brokers die. Consumers freeze, crash, return or read slowly.
From a quarter of the log on, brokers put what waits on disk; several times that much waits. In half of the trials a
broker between a publisher and the subscription dies, where those behind it had forgotten what they keep again after the
repair; otherwise brokers die by chance.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
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
    random_for,
)
from resprout.sim.classes.machines import black_out, with_disks
from resprout.sim.mishaps import GrowingTrial, brokers_in, with_blows
from resprout.sim.run import Trial, formed_us

CONSUMERS_LOG_BYTES: Final = (1 << 12, 1 << 12, 1 << 14, 64 << 20)
CONSUMERS_DISK_BYTES: Final = (1 << 12, 1 << 15, 1 << 20)
CONSUMERS_READING_US: Final = (0, 0, 500, 20_000, 60_000)
MAX_PENDING: Final = (1, 3, 20)
CONSUMERS_TIME_LIMIT_US: Final = 3600_000_000
"""Three messages fill the smallest logs. Over ten slow links in a row each takes seconds (seed 8100312)."""


def consumers(seed: int) -> Trial:
    rng = random_for(seed, "consumers")
    if rng.random() < 0.2:
        stage = GrowingTrial(seed, rng, lambda drawn: with_disks(_with_consumers(drawn, rng), rng))
        stage.later(*_deaths(stage.scenario, rng, stage.formed_us))
        black_out(stage, rng)
        return stage.trial
    scenario = _with_consumers(draw_scenario(seed), rng)
    begin_us = formed_us(scenario)
    scenario = msgspec.structs.replace(scenario, faults=tuple(_deaths(scenario, rng, begin_us)))
    if len(scenario.brokers) > 1 and rng.random() < 0.75:
        return with_blows(rng, scenario, begin_us)
    work = tuple(msgspec.structs.replace(work, start_us=begin_us + work.start_us // 4) for work in scenario.workloads)
    return Trial(msgspec.structs.replace(scenario, workloads=work))


def _with_consumers(drawn: Scenario, rng: Random) -> Scenario:
    topics = list(dict.fromkeys(topic for work in drawn.workloads for topic in work.topics))
    dropping = random_for(drawn.seed, "consumers that drop")
    found: list[ClientSpec] = []
    for number in range(rng.choice((1, 1, 2))):
        group = rng.random() < 0.4
        filter = rng.choice((*topics, "#", "#"))
        wanted = SubscriptionSpec(filter, None, f"s{number}", group, "spill" if rng.random() < 0.7 else "block")
        if dropping.random() < 0.25:
            wanted = drop_oldest(wanted, dropping)
        for which in range(rng.randint(1, 3) if group else 1):
            broker = rng.choice(drawn.brokers).name
            reading_us = rng.choice(CONSUMERS_READING_US)
            found.append(
                ClientSpec(f"d{number}-{which}", broker, subscriptions=(wanted,), reading_us=reading_us)
            )  # fmt: skip
    options = {
        **drawn.options,
        "log_bytes": rng.choice(CONSUMERS_LOG_BYTES),
        "spill_bytes": rng.choice(CONSUMERS_DISK_BYTES),
    }
    return msgspec.structs.replace(
        drawn, clients=(*drawn.clients, *found), options=options, time_limit_us=CONSUMERS_TIME_LIMIT_US
    )


def drop_oldest(wanted: SubscriptionSpec, rng: Random) -> SubscriptionSpec:
    """Return the subscription with a small number of messages that may wait; the oldest of more are dropped."""
    return msgspec.structs.replace(wanted, when_full="drop_oldest", max_pending=rng.choice(MAX_PENDING))


def _deaths(scenario: Scenario, rng: Random, from_us: int) -> list[FaultSpec]:
    """Of consumers, all of which return."""
    faults: list[FaultSpec] = []
    for client in scenario.clients:
        if client.consumes is not None and rng.random() < 0.6:
            at_us = from_us + rng.randint(0, 3_000_000)
            back_us = at_us + rng.choice((1, rng.randint(1, 3_000_000), rng.randint(1, 20_000_000)))
            faults.append(FaultSpec(at_us, FaultKind.CRASH, (client.name,)))
            faults.append(FaultSpec(back_us, FaultKind.RECOVER, (client.name,)))
    return sorted(faults, key=lambda fault: fault.at_us)


BROKERS_MAX: Final = 6
REACH_US: Final = 20_000
SPILLING_LOG_BYTES: Final = (1 << 14, 1 << 15, 1 << 16)
SPILLING_DISK_BYTES: Final = (1 << 16, 1 << 20, 1 << 20)
PAYLOADS: Final = (300, 1_000, 1_000, 5_000)
INTERVALS_US: Final = (2_000, 20_000, 50_000)
SPILLING_READING_US: Final = (0, 0, 500, 30_000)
TOPICS: Final = ("jobs/a", "jobs/b", "other")
FILTERS: Final = ("jobs/#", "jobs/#", "jobs/a", "#")
MIXES: Final = (
    Mix(causal=1.0),
    Mix(eventual=0.2, fifo=0.2, causal=0.5, total=0.1),
    Mix(eventual=0.5, causal=0.5),
)
PUBLICATIONS_MAX: Final = 300
SPILLING_TIME_LIMIT_US: Final = 3_600_000_000
REPAIRED_US: Final = 30_000_000
"""Ample for one repair of the slowest tree that is drawn."""


def spilling(seed: int) -> Trial:
    rng = random_for(seed, "spilling")
    drawn = draw_scenario(seed, brokers_max=BROKERS_MAX, clients_max=1, reach_us=REACH_US)
    is_between = rng.random() < 0.5
    if is_between:
        drawn = msgspec.structs.replace(drawn, brokers=_line(rng, rng.choice((3, 3, 4, 5))))
    scenario = _with_clients(drawn, rng, is_between)
    if rng.random() < 0.25:
        scenario = with_disks(scenario, rng)
    begin_us = formed_us(scenario)
    scenario = msgspec.structs.replace(scenario, faults=_absences(scenario, rng, begin_us))
    if not is_between and len(scenario.brokers) > 1:
        return with_blows(rng, scenario, begin_us)
    work = msgspec.structs.replace(scenario.workloads[0], start_us=begin_us)
    faults = [*scenario.faults, *(_deaths_between(scenario, rng, begin_us) if is_between else [])]
    faults.sort(key=lambda fault: fault.at_us)
    return Trial(msgspec.structs.replace(scenario, faults=tuple(faults), workloads=(work,)))


def _line(rng: Random, count: int) -> tuple[BrokerSpec, ...]:
    """Its root is any of them."""
    root = rng.randrange(count)
    parents = [None if n == root else n + 1 if n < root else n - 1 for n in range(count)]
    reach_us = rng.choice((300, 1_000, REACH_US))
    return brokers_in(parents, lambda: rng.randint(0, reach_us))


def _with_clients(drawn: Scenario, rng: Random, is_between: bool) -> Scenario:
    """`is_between`: publishers and the first subscription are at the ends of the line."""
    brokers = [broker.name for broker in drawn.brokers]
    log_bytes = rng.choice(SPILLING_LOG_BYTES)
    payload = rng.choice(PAYLOADS)
    publishers = [
        ClientSpec(f"p{n}", brokers[-1] if is_between else rng.choice(brokers)) for n in range(rng.choice((1, 1, 2)))
    ]
    operations = int(log_bytes * rng.uniform(1, 6) / payload / len(publishers))
    work = WorkloadSpec(
        kind="random",
        clients=tuple([each.name for each in publishers]),
        topics=TOPICS,
        keys=rng.choice((0, 3, 10)),
        operations=max(5, min(PUBLICATIONS_MAX // len(publishers), operations)),
        mix=rng.choice(MIXES),
        interval_us=rng.choice(INTERVALS_US),
        payload=payload,
        options=RandomOptions(keys_max=rng.choice((0, 1, 2)), payload_min=20, burst=rng.choice((1, 1, 4, 20))),
    )
    options = {
        "faults_tolerated": rng.choice((1, 1, 2)),
        "log_bytes": log_bytes,
        "spill_bytes": rng.choice(SPILLING_DISK_BYTES),
    }
    consumers = [
        each
        for number in range(rng.choice((1, 1, 2)))
        for each in _subscription(number, rng, brokers[:1] if is_between and not number else brokers)
    ]
    listener = ClientSpec("reader", rng.choice(brokers), subscriptions=(SubscriptionSpec("#"),))
    return msgspec.structs.replace(
        drawn, clients=(*publishers, *consumers, listener), workloads=(work,), options=options,
        time_limit_us=SPILLING_TIME_LIMIT_US,
    )  # fmt: skip


def _subscription(number: int, rng: Random, brokers: list[str]) -> list[ClientSpec]:
    group = rng.random() < 0.4
    where = "amount < 500" if rng.random() < 0.2 else None
    wanted = SubscriptionSpec(
        rng.choice(FILTERS), where, f"s{number}", group, "spill" if rng.random() < 0.85 else "block"
    )
    count = rng.randint(1, 3) if group else 1
    return [
        ClientSpec(
            f"d{number}-{n}", rng.choice(brokers), subscriptions=(wanted,), reading_us=rng.choice(SPILLING_READING_US)
        )
        for n in range(count)
    ]  # fmt: skip


def _absences(scenario: Scenario, rng: Random, from_us: int) -> tuple[FaultSpec, ...]:
    """Consumers freeze or crash, and return."""
    faults: list[FaultSpec] = []
    busy_us = _busy_us(scenario)
    for client in scenario.clients:
        if client.consumes is None or rng.random() < 0.1:
            continue
        at_us = from_us + rng.randint(0, busy_us // 3)
        back_us = at_us + rng.choice((rng.randint(1, busy_us), rng.randint(busy_us, busy_us + 40_000_000)))
        went, came = rng.choice(((FaultKind.FREEZE, FaultKind.UNFREEZE), (FaultKind.CRASH, FaultKind.RECOVER)))
        faults += [FaultSpec(at_us, went, (client.name,)), FaultSpec(back_us, came, (client.name,))]
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _deaths_between(scenario: Scenario, rng: Random, from_us: int) -> list[FaultSpec]:
    """The neighbour of the first subscription's home dies; where enough are left, another one after the repair."""
    brokers = [broker.name for broker in scenario.brokers]
    at_us = from_us + rng.randint(_busy_us(scenario) // 3, _busy_us(scenario) * 5 // 4)
    faults = [FaultSpec(at_us, FaultKind.CRASH, (brokers[1],))]
    if rng.random() < 0.3:
        back_us = at_us + rng.choice((rng.randint(1, 500_000), rng.randint(1, 15_000_000)))
        faults.append(FaultSpec(back_us, FaultKind.RECOVER, (brokers[1],)))
    if len(brokers) == 5 and scenario.options["faults_tolerated"] == 1 and rng.random() < 0.6:
        later_us = at_us + REPAIRED_US + rng.randint(0, 5_000_000)
        faults.append(FaultSpec(later_us, FaultKind.CRASH, (rng.choice((brokers[0], *brokers[2:4])),)))
    return faults


def _busy_us(scenario: Scenario) -> int:
    work = scenario.workloads[0]
    options = work.options
    return work.operations * work.interval_us // (options.burst if isinstance(options, RandomOptions) else 1)
