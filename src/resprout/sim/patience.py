"""How long nodes of a virtual world wait for each other, and how long the world waits before a run is over."""

from typing import Final

from resprout.links.options import LinkOptions
from resprout.scenario.model import FaultKind, Scenario
from resprout.sim.distances import Distances
from resprout.stacks.stack import WaitTimes

HEARTBEAT_US: Final = 500_000
SILENCE_US: Final = 2_000_000

SETTLE_US: Final = 10_000_000
"""Links try again at intervals of up to half of this."""


def link_options(scenario: Scenario) -> LinkOptions:
    """Of every node. Whoever is far away is not taken for silent: a greeting takes two ways, and the first heartbeat
    comes one way after that."""
    silence_us = max(SILENCE_US, HEARTBEAT_US + 4 * _reach_us(scenario))
    return LinkOptions(heartbeat_us=HEARTBEAT_US, silence_us=silence_us)


def settle_us(links: LinkOptions, waits: WaitTimes) -> int:
    """After a fault, nodes act on what they do not hear, so a run is over only when it was calm for longer than that
    takes: silence, then as long as the stack waits before it declares a broker dead. Whatever it waits for beyond that
    has a timer, which keeps the run going by itself."""
    return max(SETTLE_US, 2 * ((links.silence_us or 0) + waits.death_us))


def _reach_us(scenario: Scenario) -> int:
    places = Distances()
    for broker in scenario.brokers:
        places.place(broker.name, broker.parent, broker.latency_us)
    for fault in scenario.faults:
        if fault.kind in (FaultKind.JOIN, FaultKind.DOUBLE):
            for broker in scenario.joining(fault):
                places.place(broker.name, broker.parent, broker.latency_us)
    for client in scenario.clients:
        places.place(client.name, client.broker, client.latency_us)
    return places.reach_us
