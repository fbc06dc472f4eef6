"""Links as slow as they may be: uplinks from 500 kbit/s to 20 Mbit/s with messages of 200 kB to 1 MiB, or round trips
of up to half a lease.

More is published than thin links carry meanwhile. That is no fault: without one, nobody may be fenced. In most trials
one broker dies in the middle of it, the root as often as others, and some of the dead return.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.model import BrokerSpec, ClientSpec, Mix, RandomOptions, Scenario, WorkloadSpec, random_for
from resprout.scenario.topologies import SHAPES, parents_in
from resprout.sim.classes.drawing import brokers_in, death, first_reads_all, subscriptions_to
from resprout.sim.run import RunResult
from resprout.sim.trial import FaultModel, Trial, formed_us
from resprout.stacks.survival import everything

BANDWIDTHS: Final = (500_000, 1_000_000, 1_000_000, 2_000_000, 5_000_000, 20_000_000)
PAYLOADS: Final = (200_000, 300_000, 500_000, 900_000, 1 << 20)
LATENCIES_US: Final = (200_000, 450_000, 700_000, 750_000)
"""One way between neighbours: up to a quarter of a lease."""
BUSY_SECONDS: Final = 30
"""About so long the thinnest broker needs for what is published."""
TIME_LIMIT_US: Final = 7_200_000_000

TOPICS: Final = ("slow/a", "slow/b")
FILTERS: Final = (("#",), ("slow/#",), TOPICS, TOPICS[:1], ())


class SlowTrial(Trial, frozen=True):
    """A run without faults in which nobody may be taken for dead."""

    def complaints(self, result: RunResult) -> list[str]:
        fenced = [] if self.scenario.faults else [row.node for row in result.rows if row.kind == "fenced"]
        return [f"FENCED: {', '.join(fenced)}, although nothing had failed"] if fenced else []


def slow_links(seed: int) -> Trial:
    rng = random_for(seed, "slow-links")
    is_thin = rng.random() < 0.75
    brokers = _brokers(rng, is_thin)
    count = rng.randint(1, 5)
    clients = [
        ClientSpec(
            f"c{i}", rng.choice(brokers).name, rng.choice((0, 1_000, 30_000)), subscriptions_to(rng.choice(FILTERS))
        )
        for i in range(count)
    ]
    scenario = Scenario(
        name=f"slow links drawn from seed {seed}",
        seed=seed,
        time_limit_us=TIME_LIMIT_US,
        options={"faults_tolerated": rng.choice((1, 1, 1, 2))},
        brokers=brokers,
        clients=first_reads_all(clients),
    )
    start_us = formed_us(scenario)
    scenario = msgspec.structs.replace(scenario, workloads=(_work(rng, scenario, is_thin, start_us),))
    return SlowTrial(_struck(rng, scenario, start_us) if rng.random() < 0.75 else scenario)


def _brokers(rng: Random, is_thin: bool) -> tuple[BrokerSpec, ...]:
    parents = parents_in(rng.choice(SHAPES), rng.choice((2, 3, 3, 4, 5, 6, 8)), rng.randint(2, 6), rng)
    common = rng.choice(BANDWIDTHS)
    mixed = rng.random() < 0.3
    reach_us = rng.choice((1_000, 10_000, 40_000, 120_000) if is_thin else LATENCIES_US)
    even = rng.random() < 0.5
    return brokers_in(
        parents,
        lambda: reach_us if even else rng.randint(reach_us // 4, reach_us),
        lambda: (rng.choice(BANDWIDTHS) if mixed else common) if is_thin else None,
    )


def _work(rng: Random, scenario: Scenario, is_thin: bool, start_us: int) -> WorkloadSpec:
    speakers = rng.sample([client.name for client in scenario.clients], rng.randint(1, len(scenario.clients)))
    if is_thin:
        payload = rng.choice(PAYLOADS)
        thinnest = min(broker.bandwidth_bps or 0 for broker in scenario.brokers)
        most = thinnest // 8 * BUSY_SECONDS // (payload * (1 + len(scenario.brokers) // 2))
    else:
        payload, most = rng.choice((10, 1_000, 20_000)), 40
    return WorkloadSpec(
        "random",
        tuple(sorted(speakers)),
        TOPICS,
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


def _struck(rng: Random, scenario: Scenario, start_us: int) -> Scenario:
    """One broker dies while the links are busy, or hosts that must be missed fall silent."""
    name = rng.choice(scenario.brokers).name
    at_us = start_us + rng.randint(0, rng.choice((1_000_000, 8_000_000)))
    model = FaultModel(scenario.brokers, everything(int(scenario.options["faults_tolerated"])))
    host = model.bears((name,)) and rng.random() < 0.25
    struck = death(rng, name, at_us, host=host, return_chance=0.3, within_us=20_000_000)
    return msgspec.structs.replace(scenario, faults=struck)
