"""Many brokers that look for a place at once, in trees whose brokers take few neighbours.

The tree that is asked for is mostly one that cannot be had: a star of a dozen where a broker has two neighbours. Others
join while those of the start still look, clients are at work from the first moment, and now and then a broker crashes
in the middle of it. Everybody must have a place soon, and the tree must come to rest.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.draw import draw_scenario
from resprout.scenario.model import BrokerSpec, ClientSpec, FaultKind, FaultSpec, Scenario, random_for
from resprout.scenario.topologies import SHAPES, parents_in
from resprout.sim.trial import Trial

TIME_LIMIT_US: Final = 180_000_000
"""Ample for the slowest workload that is drawn; whoever has no place by then never finds one."""
JOIN_US_MAX: Final = 6_000_000
LATENCIES_US: Final = ((1_000, 3_000), (1_000, 3_000), (0, 0), (100, 30_000), (20_000, 120_000))


def newcomers(seed: int) -> Trial:
    rng = random_for(seed, "newcomers")
    scenario = draw_scenario(seed, brokers_max=1, operations_max=20)
    least_us, most_us = rng.choice(LATENCIES_US)
    count = rng.choice((rng.randint(3, 8), 11, rng.randint(9, 24)))
    parents = parents_in(rng.choice(("star", "star", *SHAPES)), count, rng.randint(2, 5), rng)
    brokers = [
        BrokerSpec(f"b{i}", None if parent is None else f"b{parent}", rng.randint(least_us, most_us))
        for i, parent in enumerate(parents)
    ]
    joins = [_join(rng, i, brokers, rng.randint(least_us, most_us)) for i in range(rng.choice((0, 0, 1, 3, 6)))]
    names = [broker.name for broker in brokers] + [join.nodes[0] for join in joins]
    degree = rng.choice((2, 2, 3, 3, rng.randint(2, 5)))
    scenario = msgspec.structs.replace(
        scenario,
        name=f"newcomers drawn from seed {seed}",
        time_limit_us=TIME_LIMIT_US,
        options={**scenario.options, "total_degree": degree},
        brokers=tuple(brokers),
        clients=tuple([_at(client, rng.choice(names)) for client in scenario.clients]),
    )
    faults = [*joins, *(_crash(rng, scenario) if rng.random() < 0.25 else [])]
    return Trial(msgspec.structs.replace(scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at_us))))


def _join(rng: Random, number: int, brokers: list[BrokerSpec], latency_us: int) -> FaultSpec:
    at_us = rng.choice((rng.randint(0, 300_000), rng.randint(0, JOIN_US_MAX)))
    parent = rng.choice((brokers[0].name, rng.choice(brokers).name))
    return FaultSpec(at_us, FaultKind.JOIN, (f"j{number}",), parent=parent, latency_us=latency_us)


def _at(client: ClientSpec, broker: str) -> ClientSpec:
    return msgspec.structs.replace(client, broker=broker)


def _crash(rng: Random, scenario: Scenario) -> list[FaultSpec]:
    """One process, which comes back: its clients may know no other broker yet. Not the founder, before anybody else
    could go on without it."""
    if not scenario.options["faults_tolerated"]:
        return []
    name = rng.choice(scenario.brokers[1:]).name
    at_us = rng.choice((rng.randint(0, 500_000), rng.randint(0, JOIN_US_MAX)))
    back_us = at_us + rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 10_000_000)))
    return [
        FaultSpec(at_us, FaultKind.CRASH, (name,)),
        FaultSpec(back_us, FaultKind.RECOVER, (name,), disk=rng.random() < 0.5),
    ]
