"""The latencies of a scenario, as what each of its nodes must add when it sends.

Every pair of brokers is covered, neighbours or not, and every client with every broker: a repair makes links that the
scenario does not list, and such a link is as long as the way along the tree. Brokers that join later count as well.
What takes less than `EMULATED_US_MIN` is left out, because handing bytes from one process to another takes about as
long.
"""

from typing import Final

from resprout.scenario.model import FaultKind, Scenario

EMULATED_US_MIN: Final = 500


def delays_of(scenario: Scenario) -> dict[str, dict[str, int]]:
    """By node, then by peer: one way, in microseconds."""
    brokers = list(scenario.brokers)
    for fault in scenario.faults:
        if fault.kind is FaultKind.JOIN:
            brokers += scenario.joining(fault)
    up = {broker.name: (broker.parent, broker.latency_us) for broker in brokers}
    ways = {name: _way_up(name, up) for name in up}
    delays: dict[str, dict[str, int]] = {
        one: {other: _between(way, ways[other]) for other in up if other != one} for one, way in ways.items()
    }
    for client in scenario.clients:
        home = ways[client.broker]
        delays[client.name] = {broker: client.latency_us + _between(home, way) for broker, way in ways.items()}
        for broker, far_us in delays[client.name].items():
            delays[broker][client.name] = far_us
    return {node: {peer: us for peer, us in peers.items() if us >= EMULATED_US_MIN} for node, peers in delays.items()}


def _way_up(name: str, up: dict[str, tuple[str | None, int]]) -> dict[str, int]:
    """The broker and everything above it, with the distance to each."""
    way: dict[str, int] = {}
    at: str | None = name
    far_us = 0
    while at is not None and at not in way:
        way[at] = far_us
        at, latency_us = up.get(at, (None, 0))
        far_us += latency_us
    return way


def _between(ours: dict[str, int], theirs: dict[str, int]) -> int:
    """Through the lowest broker that is above both; 0 when there is none."""
    return next((ours[place] + far_us for place, far_us in theirs.items() if place in ours), 0)
