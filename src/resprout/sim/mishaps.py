"""Faults by chance, added to drawn scenarios that have none of their own.

Some of the scenarios meet nothing, or what needs no repair: links are cut and healed, nodes freeze and go on, clients
leave, or crash and may return. In the others the tree itself is struck (`blows`), brokers join, and clients may be
unlucky at the same time.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.model import FaultKind, FaultSpec, Scenario, random_for
from resprout.sim.blows import with_blows
from resprout.sim.fault_model import survival_of
from resprout.sim.trial import Trial, formed_us

WHEN_US_MAX: Final = 3_000_000
"""Most drawn workloads are busy in the first seconds."""

LASTS_US_MAX: Final = 5_000_000
"""Well below the time for which a session waits for its peer; but a client looks for another broker meanwhile."""

SHORT_US_MAX: Final = 1_200_000
"""Well below the time after which a broker may be taken for dead."""


def with_mishaps(scenario: Scenario) -> Trial:
    rng = random_for(scenario.seed, "mishaps")
    chance = rng.random()
    if scenario.faults or chance < 0.12:
        return Trial(scenario)
    clients = [client.name for client in scenario.clients]
    if chance < 0.27 or len(scenario.brokers) == 1:
        nodes = [broker.name for broker in scenario.brokers] + clients
        return Trial(_unlucky(rng, scenario, rng.sample(nodes, min(len(nodes), rng.randint(1, 4))), 0))
    survival = survival_of(scenario)
    standing_us = formed_us(scenario)
    if rng.random() < 0.25:
        scenario = _unlucky(rng, scenario, rng.sample(clients, rng.randint(1, min(2, len(clients)))), standing_us)
    if rng.random() < 0.2 and survival.joins:
        scenario = _joined(rng, scenario, standing_us + rng.randint(0, WHEN_US_MAX))
    if not (survival.faults or survival.partitions):
        return Trial(scenario)
    return with_blows(rng, scenario, standing_us)


def _joined(rng: Random, scenario: Scenario, at_us: int) -> Scenario:
    """A new broker comes, perhaps with a client that was told to wait for it."""
    reach_us = max(broker.latency_us for broker in scenario.brokers)
    parent = rng.choice(scenario.brokers).name
    join = FaultSpec(at_us, FaultKind.JOIN, ("j0",), parent=parent, latency_us=rng.randint(0, reach_us))
    clients = list(scenario.clients)
    if rng.random() < 0.5:
        place = rng.randrange(len(clients))
        clients[place] = msgspec.structs.replace(clients[place], broker="j0")
    return _with_faults(msgspec.structs.replace(scenario, clients=tuple(clients)), [join])


def _unlucky(rng: Random, scenario: Scenario, names: list[str], from_us: int) -> Scenario:
    return _with_faults(scenario, [fault for name in names for fault in _mishap(rng, scenario, name, from_us)])


def _with_faults(scenario: Scenario, faults: list[FaultSpec]) -> Scenario:
    in_order = sorted((*scenario.faults, *faults), key=lambda fault: fault.at_us)
    return msgspec.structs.replace(scenario, faults=tuple(in_order))


def _mishap(rng: Random, scenario: Scenario, name: str, from_us: int) -> list[FaultSpec]:
    at_us = from_us + rng.randint(0, WHEN_US_MAX)
    is_client = any(client.name == name for client in scenario.clients)
    longest_us = LASTS_US_MAX if is_client and survival_of(scenario).cuts else SHORT_US_MAX
    back_us = at_us + rng.choice((0, rng.randint(0, 20_000), rng.randint(0, longest_us)))
    above = _above(scenario, name)
    choices = [
        "freeze",
        "freeze",
        *(["cut", "cut", "partition"] if above else []),
        *(["crash", "crash", "leave"] if is_client else []),
    ]
    match rng.choice(choices):
        case "cut":
            assert above is not None
            link = ((name, above),)
            return [FaultSpec(at_us, FaultKind.CUT, links=link), FaultSpec(back_us, FaultKind.HEAL, links=link)]
        case "partition":
            return [FaultSpec(at_us, FaultKind.PARTITION, nodes=(name,)), FaultSpec(back_us, FaultKind.HEAL)]
        case "crash":
            crash = FaultSpec(at_us, FaultKind.CRASH, nodes=(name,), host=rng.random() < 0.3)
            return [crash, FaultSpec(back_us, FaultKind.RECOVER, nodes=(name,))] if rng.random() < 0.7 else [crash]
        case "leave":
            return [FaultSpec(at_us, FaultKind.LEAVE, nodes=(name,))]
        case _:
            froze = FaultSpec(at_us, FaultKind.FREEZE, nodes=(name,))
            return [froze, FaultSpec(back_us, FaultKind.UNFREEZE, nodes=(name,))]


def _above(scenario: Scenario, name: str) -> str | None:
    """The node that this one hangs on; None for a root."""
    for client in scenario.clients:
        if client.name == name:
            return client.broker
    return next(broker.parent for broker in scenario.brokers if broker.name == name)
