"""How deliveries of the default stack compare with the links before a crash, and after the repair in the tree that has
grown back by then."""

from typing import Final

import msgspec

from benchmarks.seed000.latency import Barrier, Delivered, deliveries, link_sum_us
from benchmarks.seed000.stage import Played, distances_in
from resprout.scenario.model import Scenario
from resprout.sim.clients import ClientSide
from resprout.stacks.resprout.broker import ResproutBroker

SETTLED_US: Final = 6_000_000
"""After the crash: the tree is repaired, and whoever had too many neighbours has fewer."""


class Shares(msgspec.Struct, frozen=True):
    """Latencies by guarantee, divided by their yardstick: that of `eventual`, or the formula of a total."""

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
    """Of one tree. Nothing is shown before it is safe, so the yardstick of `eventual` is the later of two: it is here,
    and it can be known here that f + 1 brokers have it. With f = 1 they are the same, wherever publisher and subscriber
    are at different brokers."""

    def __init__(self, scenario: Scenario) -> None:
        self._places = distances_in(scenario)
        self._barrier = Barrier(scenario)
        self._faults = int(scenario.options.get("faults_tolerated", 1))
        self._parents = {broker.name: broker.parent for broker in scenario.brokers}
        self._homes = {client.name: client.broker for client in scenario.clients}
        self._plain: dict[tuple[str, str], int] = {}

    def share(self, one: Delivered) -> float:
        return one.latency_us / (self._plain_us(one) if one.guarantee == "eventual" else self._barrier.us(one))

    def _plain_us(self, one: Delivered) -> int:
        pair = (one.publisher, one.subscriber)
        if pair not in self._plain:
            self._plain[pair] = max(link_sum_us(self._places, one), self._safe_us(*pair))
        return self._plain[pair]

    def _safe_us(self, publisher: str, subscriber: str) -> int:
        """Whoever is on the way has it before; of others one hears over the links between."""
        between = self._places.between
        origin, here = self._homes[publisher], self._homes[subscriber]
        way = self._way(origin, here)
        others = sorted(between(origin, x) + between(x, here) for x in self._parents if x not in way)
        missing = min(self._faults + 1 - len(way), len(others))
        ends_us = between(publisher, origin) + between(here, subscriber)
        return ends_us + (others[missing - 1] if missing > 0 else 0)

    def _way(self, one: str, other: str) -> set[str]:
        ups = [self._up(one), self._up(other)]
        return set(ups[0]) ^ set(ups[1]) | {next(x for x in ups[0] if x in ups[1])}

    def _up(self, name: str) -> list[str]:
        way = [name]
        while (above := self._parents[way[-1]]) is not None:
            way.append(above)
        return way


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
        parent = machine.life.view.parent
        latency_us = way.between(broker.name, parent) if parent is not None else 0
        brokers.append(msgspec.structs.replace(broker, parent=parent, latency_us=latency_us))
    clients = []
    for client in scenario.clients:
        side = played.world.nodes[client.name].above
        assert isinstance(side, ClientSide)
        home = side.machine.broker
        clients.append(msgspec.structs.replace(client, broker=home, latency_us=way.between(client.name, home)))
    return msgspec.structs.replace(scenario, brokers=tuple(brokers), clients=tuple(clients))
