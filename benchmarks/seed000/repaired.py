"""How deliveries of the default stack compare with the links before a crash, and after the repair in the tree that has
grown back by then."""

from typing import Final

import msgspec

from benchmarks.seed000.latency import Barrier, Delivered, deliveries, link_sum_us
from benchmarks.seed000.stage import Played, distances_in
from resprout.scenario.model import Scenario
from resprout.sim.client import ClientSide
from resprout.stacks.resprout.broker import ResproutBroker

SETTLED_US: Final = 6_000_000
"""After the crash: the tree is repaired, and whoever had too many neighbours has fewer."""


class Shares(msgspec.Struct, frozen=True):
    """Latencies by guarantee, divided by the links (`eventual`) or by the formula of a total (the others)."""

    before: dict[str, list[float]]
    after: dict[str, list[float]]


def shares(played: Played) -> Shares:
    """Without faults everything is before."""
    crash_us = min((fault.at_us for fault in played.scenario.faults), default=1 << 62)
    found = Shares({}, {})
    first = Yardstick(played.scenario)
    grown = Yardstick(grown_back(played)) if played.scenario.faults else first
    for one in deliveries(played.rows):
        if one.is_own:
            continue
        if one.published_us + one.latency_us < crash_us:
            found.before.setdefault(one.guarantee, []).append(first.share(one))
        elif one.published_us > crash_us + SETTLED_US:
            found.after.setdefault(one.guarantee, []).append(grown.share(one))
    return found


class Yardstick:
    """Of one tree."""

    def __init__(self, scenario: Scenario) -> None:
        self._places = distances_in(scenario)
        self._barrier = Barrier(scenario)

    def share(self, one: Delivered) -> float:
        is_plain = one.guarantee == "eventual"
        return one.latency_us / (link_sum_us(self._places, one) if is_plain else self._barrier.us(one))


def grown_back(played: Played) -> Scenario:
    """The scenario as if the tree had always been what it is at the end of the run."""
    scenario = played.scenario
    way = distances_in(scenario)
    brokers = []
    for broker in scenario.brokers:
        process = played.world.nodes[broker.name].process
        if process is None or process.dead:
            continue
        machine = process.machine.machine  # type: ignore[attr-defined]
        assert isinstance(machine, ResproutBroker), "only this one is asked where it stands"
        parent = machine.core.standing.parent
        latency_us = way.between(broker.name, parent) if parent is not None else 0
        brokers.append(msgspec.structs.replace(broker, parent=parent, latency_us=latency_us))
    clients = []
    for client in scenario.clients:
        side = played.world.nodes[client.name].above
        assert isinstance(side, ClientSide)
        home = side.machine.broker
        clients.append(msgspec.structs.replace(client, broker=home, latency_us=way.between(client.name, home)))
    return msgspec.structs.replace(scenario, brokers=tuple(brokers), clients=tuple(clients))
