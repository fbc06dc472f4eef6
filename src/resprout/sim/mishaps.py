"""Faults by chance that need no repair: sessions resume and clients start again, so nothing may be lost for them.

Links are cut and healed, nodes freeze and go on, clients leave, or crash and may return; no broker dies. They are
added to drawn scenarios that have no faults of their own.
"""

from random import Random
from typing import Final

import msgspec

from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.scenario.seeds import random_for

WHEN_US_MAX: Final = 3_000_000
"""Most drawn workloads are busy in the first seconds."""

LASTS_US_MAX: Final = 5_000_000
"""Well below the time for which a session waits for its peer."""


def with_mishaps(scenario: Scenario) -> Scenario:
    """The same scenario with up to four mishaps; one in two stays as it is."""
    rng = random_for(scenario.seed, "mishaps")
    if scenario.faults or rng.random() < 0.5:
        return scenario
    nodes = [broker.name for broker in scenario.brokers] + [client.name for client in scenario.clients]
    victims = rng.sample(nodes, min(len(nodes), rng.randint(1, 4)))
    faults = [fault for name in victims for fault in _mishap(rng, scenario, name)]
    return msgspec.structs.replace(scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at_us)))


def _mishap(rng: Random, scenario: Scenario, name: str) -> list[FaultSpec]:
    at_us = rng.randint(0, WHEN_US_MAX)
    back_us = at_us + rng.choice((0, rng.randint(0, 20_000), rng.randint(0, LASTS_US_MAX)))
    above = _above(scenario, name)
    is_client = any(client.name == name for client in scenario.clients)
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
