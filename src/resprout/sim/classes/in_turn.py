"""`in-turn`: in a small network brokers crash, or are restarted, one after the other, and each is back before the next
one goes; and some clients are frozen meanwhile.

So what those have not received must be kept by brokers that were not there when it was published.
"""

from typing import Final

import msgspec

from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.scenario.seeds import random_for
from resprout.sim.blows import LONG_EVENTS
from resprout.sim.classes.striking import GrowingTrial
from resprout.sim.trial import Trial

BROKERS_MAX: Final = 4
ROUNDS_MAX: Final = 5
FROZEN_US: Final = 25_000_000
"""Shorter than a broker's clients are waited for when it has died."""


def in_turn(seed: int) -> Trial:
    rng = random_for(seed, "in-turn")
    stage = GrowingTrial(seed, rng, _small)
    names = stage.model.names
    if len(names) == 1:
        return stage.trial
    from_us = stage.formed_us
    for client in stage.scenario.clients:
        if rng.random() < 0.5:
            at_us = from_us + rng.choice((0, rng.randint(0, 1_500_000)))
            stage.later(FaultSpec(at_us, FaultKind.FREEZE, (client.name,)))
            stage.later(FaultSpec(at_us + FROZEN_US, FaultKind.UNFREEZE, (client.name,)))
    for number in range(rng.randint(2, ROUNDS_MAX)):
        rehearsal = stage.rehearse()
        if len(rehearsal.times_us) > LONG_EVENTS:
            break
        if number:
            from_us = rehearsal.rest_us
        event = stage.moment(rehearsal, from_us) if rng.random() < 0.5 else rehearsal.event_from(from_us)
        at_us = rehearsal.time_of(event)
        name = rng.choice(names)
        if rng.random() < 0.3:
            stage.strike(event, FaultSpec(at_us, FaultKind.RESTART, (name,)))
            continue
        stage.strike(event, FaultSpec(at_us, FaultKind.CRASH, (name,)))
        down_us = rng.choice((1, rng.randint(1, 500_000), rng.randint(1, 5_000_000)))
        stage.later(FaultSpec(at_us + down_us, FaultKind.RECOVER, (name,), disk=False))
    return stage.trial


def _small(drawn: Scenario) -> Scenario:
    """Its first brokers only; clients of others come to these."""
    brokers = drawn.brokers[: 2 + drawn.seed % (BROKERS_MAX - 1)]
    names = [broker.name for broker in brokers]
    clients = [
        client if client.broker in names else msgspec.structs.replace(client, broker=names[number % len(names)])
        for number, client in enumerate(drawn.clients)
    ]
    return msgspec.structs.replace(drawn, brokers=brokers, clients=tuple(clients))
