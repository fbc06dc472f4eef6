"""`slow-links` and `thin-links`: links that carry less than is published, or that are slow.

`slow-links`: uplinks from 500 kbit/s to 20 Mbit/s with messages of 200 kB to 1 MiB, or round trips of up to half a
lease. `thin-links`: bandwidths from 1 Mbit to none, payloads of up to 1 MiB with small ones beside them. For a while
every link is saturated. That is no fault: without one, no broker may be taken for dead, and everything arrives.

In most trials of `slow-links` one broker dies in the middle of it, the root as often as others, and some of the dead
return. In some trials of `thin-links` one broker crashes or freezes.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from resprout.scenario.model import (
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Mix,
    RandomOptions,
    Scenario,
    WorkloadSpec,
    random_for,
)
from resprout.scenario.topologies import SHAPES, parents_in
from resprout.sim.mishaps import brokers_in, death, first_reads_all, subscriptions_to
from resprout.sim.run import FaultModel, RunResult, Trial, formed_us
from resprout.stacks.stack import everything

SLOW_BANDWIDTHS: Final = (500_000, 1_000_000, 1_000_000, 2_000_000, 5_000_000, 20_000_000)
SLOW_PAYLOADS: Final = (200_000, 300_000, 500_000, 900_000, 1 << 20)
LATENCIES_US: Final = (200_000, 450_000, 700_000, 750_000)
"""One way between neighbours: up to a quarter of a lease."""
SLOW_BUSY_SECONDS: Final = 30
"""About so long the thinnest broker needs for what is published."""
SLOW_TIME_LIMIT_US: Final = 7_200_000_000

SLOW_TOPICS: Final = ("slow/a", "slow/b")
SLOW_FILTERS: Final = (("#",), ("slow/#",), SLOW_TOPICS, SLOW_TOPICS[:1], ())


class SlowTrial(Trial, frozen=True):
    """A run without faults in which nobody may be taken for dead."""

    def complaints(self, result: RunResult) -> list[str]:
        fenced = [] if self.scenario.faults else [row.node for row in result.rows if row.kind == "fenced"]
        return [f"FENCED: {', '.join(fenced)}, although nothing had failed"] if fenced else []


def slow_links(seed: int) -> Trial:
    rng = random_for(seed, "slow-links")
    is_thin = rng.random() < 0.75
    brokers = _slow_brokers(rng, is_thin)
    count = rng.randint(1, 5)
    clients = [
        ClientSpec(
            f"c{i}",
            rng.choice(brokers).name,
            rng.choice((0, 1_000, 30_000)),
            subscriptions_to(rng.choice(SLOW_FILTERS)),
        )
        for i in range(count)
    ]
    scenario = Scenario(
        name=f"slow links drawn from seed {seed}",
        seed=seed,
        time_limit_us=SLOW_TIME_LIMIT_US,
        options={"faults_tolerated": rng.choice((1, 1, 1, 2))},
        brokers=brokers,
        clients=first_reads_all(clients),
    )
    start_us = formed_us(scenario)
    scenario = msgspec.structs.replace(scenario, workloads=(_work(rng, scenario, is_thin, start_us),))
    return SlowTrial(_slow_struck(rng, scenario, start_us) if rng.random() < 0.75 else scenario)


def _slow_brokers(rng: Random, is_thin: bool) -> tuple[BrokerSpec, ...]:
    parents = parents_in(rng.choice(SHAPES), rng.choice((2, 3, 3, 4, 5, 6, 8)), rng.randint(2, 6), rng)
    common = rng.choice(SLOW_BANDWIDTHS)
    mixed = rng.random() < 0.3
    reach_us = rng.choice((1_000, 10_000, 40_000, 120_000) if is_thin else LATENCIES_US)
    even = rng.random() < 0.5
    return brokers_in(
        parents,
        lambda: reach_us if even else rng.randint(reach_us // 4, reach_us),
        lambda: (rng.choice(SLOW_BANDWIDTHS) if mixed else common) if is_thin else None,
    )


def _work(rng: Random, scenario: Scenario, is_thin: bool, start_us: int) -> WorkloadSpec:
    speakers = rng.sample([client.name for client in scenario.clients], rng.randint(1, len(scenario.clients)))
    if is_thin:
        payload = rng.choice(SLOW_PAYLOADS)
        thinnest = min(broker.bandwidth_bps or 0 for broker in scenario.brokers)
        most = thinnest // 8 * SLOW_BUSY_SECONDS // (payload * (1 + len(scenario.brokers) // 2))
    else:
        payload, most = rng.choice((10, 1_000, 20_000)), 40
    return WorkloadSpec(
        "random",
        tuple(sorted(speakers)),
        SLOW_TOPICS,
        keys=rng.choice((0, 1, 3)),
        operations=max(1, min(12, most // len(speakers))),
        mix=rng.choice(
            (
                Mix(causal=1.0),
                Mix(eventual=0.5, causal=0.5),
                Mix(eventual=0.25, fifo=0.25, causal=0.25, total=0.25),
                Mix(total=1.0),
            )
        ),
        interval_us=rng.choice((0, 60_000, 500_000)),
        payload=payload,
        start_us=start_us,
        options=RandomOptions(attributes=False),
    )


def _slow_struck(rng: Random, scenario: Scenario, start_us: int) -> Scenario:
    """One broker dies while the links are busy, or hosts that must be missed fall silent."""
    name = rng.choice(scenario.brokers).name
    at_us = start_us + rng.randint(0, rng.choice((1_000_000, 8_000_000)))
    model = FaultModel(scenario.brokers, everything(int(scenario.options["faults_tolerated"])))
    host = model.bears((name,)) and rng.random() < 0.25
    struck = death(rng, name, at_us, host=host, return_chance=0.3, within_us=20_000_000)
    return msgspec.structs.replace(scenario, faults=struck)


THIN_BANDWIDTHS: Final = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 100_000_000, None)
THIN_PAYLOADS: Final = (5_000, 20_000, 100_000, 150_000, 300_000, 1 << 20)
THIN_BUSY_SECONDS: Final = 30
"""About so long the busiest broker is saturated."""
EVENTS: Final = 60_000
"""About so many deliveries of parts, whatever the links carry: the trial must not take long in real time."""
THIN_TIME_LIMIT_US: Final = 900_000_000

THIN_TOPICS: Final = ("thin/large", "thin/small")
THIN_FILTERS: Final = (("#",), ("#",), THIN_TOPICS, THIN_TOPICS[1:], ())


def thin_links(seed: int) -> Trial:
    rng = random_for(seed, "thin-links")
    brokers = _thin_brokers(rng, rng.choice((2, 3, 3, 4, 5, 6, 8, 12, 20)))
    count = rng.randint(1, min(8, 2 * len(brokers)))
    clients = first_reads_all(
        [
            ClientSpec(f"c{i}", rng.choice(brokers).name, subscriptions=subscriptions_to(rng.choice(THIN_FILTERS)))
            for i in range(count)
        ]
    )
    scenario = Scenario(
        name=f"thin links drawn from seed {seed}",
        seed=seed,
        time_limit_us=THIN_TIME_LIMIT_US,
        options={"faults_tolerated": rng.choice((0, 1, 1, 1, 2))},
        brokers=brokers,
        clients=clients,
    )
    start_us = formed_us(scenario)
    work = (_large(rng, brokers, clients, start_us), _small(rng, clients, start_us))
    scenario = msgspec.structs.replace(scenario, workloads=work)
    return Trial(_thin_struck(rng, scenario, start_us) if rng.random() < 0.4 else scenario)


def _thin_brokers(rng: Random, count: int) -> tuple[BrokerSpec, ...]:
    parents = parents_in(rng.choice(SHAPES), count, rng.randint(2, 6), rng)
    common = rng.choice(THIN_BANDWIDTHS)
    reach_us = rng.choice((200, 5_000, 5_000, 40_000))
    mixed = rng.random() < 0.3
    return brokers_in(
        parents,
        lambda: rng.randint(reach_us // 4, reach_us),
        lambda: rng.choice(THIN_BANDWIDTHS) if mixed else common,
    )


def _large(rng: Random, brokers: Sequence[BrokerSpec], clients: Sequence[ClientSpec], start_us: int) -> WorkloadSpec:
    """As many as keep the thinnest broker busy for a while, however many it has to serve."""
    speakers = rng.sample([client.name for client in clients], rng.randint(1, len(clients)))
    served = max(sum(b.parent == broker.name for b in brokers) for broker in brokers) + 1
    served += max(sum(client.broker == broker.name for client in clients) for broker in brokers)
    thinnest = min((broker.bandwidth_bps for broker in brokers if broker.bandwidth_bps is not None), default=10**9)
    bytes_max = thinnest // 8 * THIN_BUSY_SECONDS // served
    fitting = [payload for payload in THIN_PAYLOADS if payload <= bytes_max] or list(THIN_PAYLOADS[:1])
    payload = rng.choice(fitting)
    most = min(bytes_max // payload, EVENTS * 20 // (len(brokers) * max(20, payload // 2_000)))
    return WorkloadSpec(
        "random",
        tuple(sorted(speakers)),
        THIN_TOPICS[:1],
        keys=rng.choice((0, 4)),
        operations=max(1, min(20, most // len(speakers))),
        mix=_mix(rng),
        interval_us=rng.choice((0, 50_000, 50_000, 500_000)),
        payload=payload,
        start_us=start_us,
        options=RandomOptions(attributes=False, payload_min=rng.choice((None, None, 1_000)), burst=rng.choice((1, 3))),
    )


def _small(rng: Random, clients: Sequence[ClientSpec], start_us: int) -> WorkloadSpec:
    speakers = rng.sample([client.name for client in clients], rng.randint(1, len(clients)))
    return WorkloadSpec(
        "random",
        tuple(sorted(speakers)),
        THIN_TOPICS[1:],
        keys=rng.choice((0, 4)),
        operations=rng.choice((5, 20)),
        mix=_mix(rng),
        interval_us=rng.choice((10_000, 100_000, 500_000)),
        payload=rng.choice((10, 500)),
        start_us=start_us,
        options=RandomOptions(attributes=False),
    )


def _mix(rng: Random) -> Mix:
    return rng.choice(
        (
            Mix(causal=1.0),
            Mix(fifo=0.5, causal=0.5),
            Mix(eventual=0.3, fifo=0.3, causal=0.4),
            Mix(causal=0.7, total=0.3),
            Mix(total=1.0),
        )
    )


def _thin_struck(rng: Random, scenario: Scenario, start_us: int) -> Scenario:
    """One broker falls while the links are busy, or stops for a moment; some of the fallen return."""
    faults = int(scenario.options["faults_tolerated"])
    at_us = start_us + rng.randint(0, rng.choice((1_000_000, 10_000_000)))
    name = rng.choice(scenario.brokers).name
    model = FaultModel(scenario.brokers, everything(faults))
    if not faults or len(scenario.brokers) == 1 or rng.random() < 0.3:
        lasts_us = rng.randint(1, 1_200_000)
        struck = _stop(name, at_us, lasts_us)
    elif model.bears((name,)) and rng.random() < 0.3:
        lasts_us = rng.randint(5_000_000, 15_000_000)
        struck = _stop(name, at_us, lasts_us)
    else:
        host = model.bears((name,)) and rng.random() < 0.4
        struck = death(rng, name, at_us, host=host, return_chance=0.5, within_us=15_000_000)
    return msgspec.structs.replace(scenario, faults=struck)


def _stop(name: str, at_us: int, lasts_us: int) -> tuple[FaultSpec, ...]:
    return (FaultSpec(at_us, FaultKind.FREEZE, (name,)), FaultSpec(at_us + lasts_us, FaultKind.UNFREEZE, (name,)))
