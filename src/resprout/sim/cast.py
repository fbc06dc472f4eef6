"""Who takes part in a scenario: puts its brokers, clients and applications into a world.

`Masks` are for clients that connect under the name of another one. The network knows them by that name; in the trace
each has its own, because those who look at a trace have to tell programs apart that a network cannot.

`link_options` and `settle_us` say how long nodes of a virtual world wait for each other, and how long the world waits
before a run is over.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from random import Random
from typing import Any, Final

import msgspec

from resprout.core import limits
from resprout.core.contract import Machine, Note, Timer
from resprout.core.message_ids import WINDOW_US
from resprout.edge.broker.recorder import EventRecorder
from resprout.edge.client.machine import ClientMachine
from resprout.edge.client.options import AskAgain
from resprout.journal.spill import SpillSegments
from resprout.links.frames import FRAMES, ReconnectDue
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.scenario.app import App
from resprout.scenario.app_runner import AppMaker, make_consumer
from resprout.scenario.model import (
    MQTT,
    PLAIN_WHEN_FULL,
    BrokerSpec,
    ClientSpec,
    FaultKind,
    FaultSpec,
    Scenario,
    SubscriptionSpec,
    random_for,
)
from resprout.scenario.observe import note_row
from resprout.sim.clients import ClientSide, ConsumerSide, RepeatingProducer, options_of, window_of
from resprout.sim.disk import VirtualFiles
from resprout.sim.logs import VirtualLogs
from resprout.sim.mqtt.client import ConnectAgain, MqttClientMachine
from resprout.sim.mqtt.server import VirtualHost, VirtualMqtt, listener_of
from resprout.sim.mqtt.tags import TaggedApp, TraceTags
from resprout.sim.network import Distances
from resprout.sim.nodes import Make, Node, Process, Scales, WeighedBodies
from resprout.sim.world import OnNote, World
from resprout.stacks.stack import BrokerSeat, WaitTimes, find_stack
from resprout.trace.schema import Row
from resprout.trace.summary import Counts
from resprout.wire.codec import Codec

LATER_BY: Final = 1_000
"""Lives of the client that takes a name are so much later than those of the one that has it."""

Record = Callable[[Row], None]

HEARTBEAT_US: Final = 500_000
SILENCE_US: Final = 2_000_000

SETTLE_US: Final = 10_000_000
"""Links try again at intervals of up to half of this."""

INCARNATION_MAX: Final = 1 << 20
"""Nobody begins so many lives in a run: they count from 1."""

SESSIONS_MAX: Final = 1 << 20
"""No process of a client begins so many sessions. Those of its next process, in the same life, have higher numbers."""


class Masks:
    def __init__(self, clients: Sequence[ClientSpec]) -> None:
        self._wearer = {client.called: client.name for client in clients if client.called is not None}

    def worn_by(self, client: ClientSpec, incarnation: int) -> tuple[str, int]:
        """The name and the incarnation that the network is told."""
        return (client.name, incarnation) if client.called is None else (client.called, incarnation + LATER_BY)

    def unmasking(self, client: ClientSpec, record: Record) -> Record:
        if not self._wearer:
            return record

        def unmasked(row: Row) -> None:
            true: dict[str, Any] = {"node": client.name}
            if row.publisher in self._wearer and row.incarnation is not None and row.incarnation > LATER_BY:
                true |= {"publisher": self._wearer[row.publisher], "incarnation": row.incarnation - LATER_BY}
            record(msgspec.structs.replace(row, **true))

        return unmasked


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


def _drops(scenario: Scenario) -> bool:
    """Whether a durable subscription drops messages: receipts of their bundles wait for heartbeats."""
    consumed = [client.consumes for client in scenario.clients if client.consumes is not None]
    return any(wanted.when_full == "drop_oldest" for wanted in consumed)


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


def _make_store(most: int) -> SpillSegments:
    """Of one life: nothing of it survives."""
    return SpillSegments(VirtualFiles(), most)


@cache
def _codec_of(messages: tuple[type[msgspec.Struct], ...]) -> Codec:
    """Made once for a stack: it never changes, and making one takes as long as hundreds of events."""
    return Codec(FRAMES, messages)


class Cast:
    def __init__(
        self,
        scenario: Scenario,
        record: Callable[[Row], None],
        on_note: OnNote,
        has_faults: bool,
        has_doubles: bool = False,
    ) -> None:
        """`has_doubles`: some nodes will bear the names of others, so names are not enough to reach them."""
        self._scenario = scenario
        self._stack = find_stack(scenario.stack)
        self._options = self._stack.parse_options(scenario.options)
        self._body_bytes = limits.body_bytes(self._stack.max_payload(self._options))
        self._links = link_options(scenario)
        self._has_doubles = has_doubles
        self._record = record
        self._apps = AppMaker(scenario)
        self._bundle_caps = scenario.bundle_caps
        self._masks = Masks(scenario.clients)
        self._clients: list[ClientSide] = []
        self._distances = Distances()
        self.counts = Counts() if scenario.trace == "counts" else None
        """What clients saw, of a run that does not record it."""
        self.mqtt: dict[str, VirtualMqtt] = {}
        """MQTT of each broker, if there are MQTT clients."""
        self._tags = TraceTags() if any(client.protocol == MQTT for client in scenario.clients) else None
        self._record_plainly = record
        if self._tags is not None:
            self._record = self._tags.recording(record)
        self._mqtt_clients: dict[str, MqttClientMachine] = {}
        """Current life of each."""
        self._note = on_note
        self._brokers: dict[str, BrokerSpec] = {}
        """All that have ever been here, in their latest places."""
        self.scales = self._make_scales()
        """None where nobody asks how many bytes anything takes."""
        waits = has_faults or _drops(scenario) or self._tags is not None
        self.world = World(
            scenario.seed,
            self._distances,
            weigh=self.scales.weigh if self.scales is not None else None,
            is_housekeeping=self._is_housekeeping,
            settle_us=settle_us(self._links, self._stack.waits(self._options)) if waits else 0,
            busy=self._busy,
            on_note=self._noted,
        )
        self.logs = VirtualLogs(self.world, scenario.logs)
        self._roster = scenario.roster() if self._stack.site_brokers(self._options) else ()

    def start(self) -> None:
        """Everybody who is there from the beginning starts, brokers first, when all have their places: whoever starts
        earlier may call those that start later."""
        nodes = [self.seat(broker) for broker in self._scenario.brokers]
        nodes += [self._seat_client(client) for client in self._scenario.clients]
        for node in nodes:
            self.world.boot(node)

    def seat(self, broker: BrokerSpec) -> Node:
        """The node of a broker, which does not run yet; one that has been there before gets its new place."""
        self._brokers[broker.name] = broker
        self._distances.place(broker.name, broker.parent, broker.latency_us)
        make = partial(self._make_broker, broker, broker.name)
        node = self.world.nodes.get(broker.name)
        if node is None:
            node = self._add(broker.name, make)
            if self._tags is not None:
                self._add_mqtt(node)
        node.make = make
        node.limit(broker.bandwidth_bps)
        node.disk_latency_us = broker.disk_latency_us
        return node

    def seat_double(self, name: str, fault: FaultSpec) -> Node:
        """A broker that somebody starts under the name of another one, on a machine of its own."""
        number = next(number for number in range(1, 1 << 20) if f"{name}+{number}" not in self.world.nodes)
        node_name = f"{name}+{number}"
        broker = BrokerSpec(name, fault.parent, fault.latency_us)
        self._distances.place(node_name, fault.parent, fault.latency_us)
        node = self._add(node_name, partial(self._make_broker, broker, node_name))
        node.incarnation = random_for(self._scenario.seed, "double", node_name).choice((0, 0, 1, 3))
        return node

    def _add_mqtt(self, node: Node) -> None:
        def note(name: str, told: Note) -> None:
            self._record(note_row(self.world.now_us, name, told.kind, told.columns))

        links = msgspec.structs.replace(self._links, heartbeat_us=HEARTBEAT_US)
        node.guest = self.mqtt[node.name] = VirtualMqtt(
            self.world, self._distances, node, links, self._body_bytes, note
        )

    def _noted(self, process: Process, note: Note) -> None:
        """Handle a note of a machine: an embedded client tells its session, and others the trace."""
        if isinstance(process.node.above, VirtualHost):
            process.node.above.noted(note)
        else:
            self._note(process, note)

    def is_broker(self, name: str) -> bool:
        return name in self._brokers

    def _seat_client(self, client: ClientSpec) -> Node:
        self._distances.place(client.name, client.broker, client.latency_us)
        if client.protocol == MQTT:
            return self._add(client.name, partial(self._make_mqtt_client, client))
        record = self._masks.unmasking(client, self._record)
        if (wanted := client.consumes) is not None:
            window_us = int(self._scenario.options.get("message_id_us", WINDOW_US))
            consumer = ConsumerSide(client, wanted, self.world, self._record, window_us, self._tags)
            make = partial(self._make_consumer, client, wanted)
            node = self._add(client.name, make, consumer)
            node.is_free = self._scenario.has_free_client_links
            return node
        producer: RepeatingProducer | None = None
        if client.repeats:
            rng = random_for(self._scenario.seed, "repeats", client.name)
            producer = RepeatingProducer(self._apps.make(client.name), rng, record)
            record = producer.record

        def make_app(life: int) -> App:
            app: App = self._apps.make(client.name, life - 1) if producer is None else producer.start_process()
            return app if self._tags is None else TaggedApp(app, f"{client.name}.{life}")

        above = ClientSide(client, self.world, record, make_app, self.counts, self._tags)
        self._clients.append(above)
        node = self._add(client.name, partial(self._make_client, client, above), above)
        node.is_free = self._scenario.has_free_client_links
        return node

    def _make_broker(self, broker: BrokerSpec, node_name: str, incarnation: int, rng: Random) -> Machine:
        node = self.world.nodes[node_name]
        parent = node.toward or broker.parent
        address = node_name if self._has_doubles else ""
        contacts = self._contacts(broker, node, incarnation)
        founds, node.founds = node.founds, False
        if founds:
            parent, contacts = None, ()
        seat = BrokerSeat(
            broker.name, incarnation, parent, contacts, address, broker.site or "", _make_store, True, node.memory,
            founds, logs=self._scenario.logs, roster=self._roster, is_traced=True,
        )  # fmt: skip
        machine: Machine = self._stack.make_broker(seat, self._options, rng)
        if broker.keep:
            machine = EventRecorder(machine, broker.name, incarnation, broker.name, broker.keep)
        return self._link(machine, broker.name, "broker", incarnation, rng)

    def _make_client(self, client: ClientSpec, above: ClientSide, incarnation: int, rng: Random) -> Machine:
        # Whoever returns has been here before, and turns to others when its own broker is gone meanwhile.
        others = tuple(self._brokers) if incarnation > 1 else ()
        epoch = incarnation * SESSIONS_MAX if client.repeats else 0
        name, incarnation = self._masks.worn_by(client, 1 if client.repeats else incarnation)
        options = options_of(client, self._bundle_caps.get(client.name, limits.BUNDLE_MESSAGES))
        machine = above.machine = ClientMachine(name, incarnation, client.broker, options, others)
        machine.when_full = PLAIN_WHEN_FULL[client.when_full]
        return self._link(machine, name, "client", incarnation, rng, window_of(client, self._links), epoch)

    def _make_mqtt_client(self, client: ClientSpec, incarnation: int, rng: Random) -> Machine:
        assert self._tags is not None, "there is an MQTT client"

        def brokers() -> list[str]:
            return [client.broker, *[name for name in self._brokers if name != client.broker]]

        app = self._apps.make(client.name, incarnation - 1)
        machine = MqttClientMachine(client, incarnation, app, brokers, self._record_plainly, self._tags)
        self._mqtt_clients[client.name] = machine
        return machine

    def _make_consumer(self, client: ClientSpec, wanted: SubscriptionSpec, incarnation: int, rng: Random) -> Machine:
        machine = make_consumer(client, wanted, incarnation, tuple(self._brokers), 0)
        return self._link(machine, client.name, "client", incarnation, rng)

    def _link(
        self,
        machine: Machine,
        name: str,
        role: str,
        incarnation: int,
        rng: Random,
        options: LinkOptions | None = None,
        epoch: int = 0,
    ) -> Machine:
        """`epoch`: the number of its first session, unless any will do."""
        epoch = epoch or (1 + rng.randrange(1 << 30) if self._has_doubles else 1)
        return Links(
            machine, name=name, role=role, incarnation=incarnation, rng=rng, options=options or self._links,
            first_epoch=epoch,
            incarnation_max=lambda: INCARNATION_MAX, bodies=WeighedBodies(self._body_bytes),
        )  # fmt: skip

    def _contacts(self, broker: BrokerSpec, node: Node, incarnation: int) -> tuple[str, ...]:
        """The other brokers that it may ask for a place, its parent first: those that the scenario names, or else all.
        Without a parent, one that is there from the start knows whom the scenario says; one that knows nobody founds
        the network, once."""
        founders = [founder.name for founder in self._scenario.brokers]
        if broker.contacts:
            others = [*broker.contacts, *(node.company if node.first else ())]
        elif node.first:
            others = list(node.company)
        elif node.name != broker.name:
            others = founders
        elif incarnation > 1:
            others = list(self._brokers)
        elif broker.parent is None and broker.name in founders:
            others = list(broker.contacts)
        else:
            others = founders
        first = [broker.parent] if broker.parent is not None else []
        return tuple(dict.fromkeys(first + [name for name in others if name != broker.name]))

    def _add(self, name: str, make: Make, above: ClientSide | ConsumerSide | None = None) -> Node:
        node = self.world.add(name, make, above=above)
        node.is_weighed = self._scenario.counts_bytes
        return node

    def _make_scales(self) -> Scales | None:
        """Sizes cost time, so they are told only where somebody asks for them."""
        places: list[Any] = [*self._scenario.brokers, *self._scenario.faults]
        if not self._scenario.counts_bytes and all(place.bandwidth_bps is None for place in places):
            return None
        return Scales(_codec_of(self._stack.messages))

    def _busy(self) -> bool:
        if any(client.busy for client in self._clients) or self.logs.is_busy():
            return True
        return any(self._is_running(name) and client.busy for name, client in self._mqtt_clients.items())

    def _is_running(self, name: str) -> bool:
        process = self.world.nodes[name].process
        return process is not None and process.step is not None

    def _is_housekeeping(self, process: Process, timer: Timer) -> bool:
        """To call again at a door that only a fault can open, for ever, is no reason for a run to go on."""
        if isinstance(timer, ReconnectDue):
            return self._is_out_of_reach(process, timer.peer)
        if isinstance(timer, AskAgain):
            return all(self._is_out_of_reach(process, name) for name in timer.brokers)
        if isinstance(timer, ConnectAgain):
            return all(self._is_out_of_reach(process, listener_of(name)) for name in self._brokers)
        return timer.background

    def _is_out_of_reach(self, process: Process, name: str) -> bool:
        target = process.node.book.get(name, name)
        node = self.world.nodes.get(target)
        if node is None or node.process is None or node.process.step is None:
            return True
        return self.world.network.cuts.between(process.node.place, node.place)
