"""Who takes part in a scenario: puts its brokers, clients and applications into a world."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from resprout.core.contract import Machine, Timer
from resprout.edge.client import ClientMachine
from resprout.links.frames import Data, Goodbye, Hello, Welcome
from resprout.links.links import Links
from resprout.links.timers import ReconnectDue
from resprout.scenario.client_app import AppMaker
from resprout.scenario.model import BrokerSpec, ClientSpec, Scenario
from resprout.sim.client import ClientSide
from resprout.sim.distances import Distances
from resprout.sim.network import SizeOf
from resprout.sim.nodes import Node, Process
from resprout.sim.world import OnNote, World
from resprout.stacks.registry import find_stack
from resprout.stacks.stack import BrokerSeat
from resprout.trace.schema import Row
from resprout.wire.codec import Codec


class Cast:
    def __init__(self, scenario: Scenario, record: Callable[[Row], None], on_note: OnNote, settle_us: int) -> None:
        self._scenario = scenario
        self._stack = find_stack(scenario.stack)
        self._options = self._stack.parse_options(scenario.options)
        self._record = record
        self._apps = AppMaker(scenario)
        self._clients: list[ClientSide] = []
        self._distances = Distances()
        self.world = World(
            scenario.seed,
            self._distances,
            size_of=self._size_of(),
            is_housekeeping=self._is_housekeeping,
            settle_us=settle_us,
            busy=self._busy,
            on_note=on_note,
        )

    def start(self) -> None:
        """Everybody who is there from the beginning starts, brokers first."""
        for broker in self._scenario.brokers:
            self.world.boot(self.seat(broker))
        for client in self._scenario.clients:
            self.world.boot(self._seat_client(client))

    def seat(self, broker: BrokerSpec) -> Node:
        """The node of a broker, which does not run yet; one that has been there before gets its new place."""
        self._distances.place(broker.name, broker.parent, broker.latency_us)
        make = partial(self._make_broker, broker)
        node = self.world.nodes.get(broker.name)
        if node is None:
            return self.world.add(broker.name, make, bandwidth_bps=broker.bandwidth_bps)
        node.make = make
        node.bandwidth_bps = broker.bandwidth_bps
        return node

    def _seat_client(self, client: ClientSpec) -> Node:
        self._distances.place(client.name, client.broker, client.latency_us)
        above = ClientSide(self.world, self._record, lambda incarnation: self._apps.make(client.name, incarnation - 1))
        self._clients.append(above)
        return self.world.add(client.name, partial(self._make_client, client, above), above=above)

    def _make_broker(self, broker: BrokerSpec, incarnation: int, rng: Random) -> Machine:
        seat = BrokerSeat(broker.name, incarnation, broker.parent)
        machine = self._stack.make_broker(seat, self._options, rng)
        return Links(machine, name=broker.name, role="broker", incarnation=incarnation, rng=rng)

    def _make_client(self, client: ClientSpec, above: ClientSide, incarnation: int, rng: Random) -> Machine:
        machine = above.machine = ClientMachine(client.name, incarnation, client.broker)
        return Links(machine, name=client.name, role="client", incarnation=incarnation, rng=rng)

    def _size_of(self) -> SizeOf | None:
        """Sizes cost time, so they are told only where a bandwidth asks for them."""
        places: list[Any] = [*self._scenario.brokers, *self._scenario.faults]
        if all(place.bandwidth_bps is None for place in places):
            return None
        return Codec((Hello, Welcome, Data, Goodbye), self._stack.messages).frame_bytes

    def _busy(self) -> bool:
        return any(client.busy for client in self._clients)

    def _is_housekeeping(self, process: Process, timer: Timer) -> bool:
        """To call again at a door that only a fault can open, for ever, is no reason for a run to go on."""
        if not isinstance(timer, ReconnectDue):
            return timer.background
        node = self.world.nodes.get(timer.peer)
        return node is None or node.process is None or self.world.network.cuts.between(process.name, timer.peer)
