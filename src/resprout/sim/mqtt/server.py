"""MQTT at one broker of the virtual world (`VirtualMqtt`): its sessions, connections and embedded clients.

The sessions are those of real brokers (`mqtt_sessions`). They run in a node of their own, whose process begins, ends
and freezes with that of the broker, and so does the node of each embedded client. Between these nodes frames take no
time. Packets of MQTT clients travel as bytes.

Not modelled: slow connections (write buffers), limits of connections, and rules.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from resprout.core.contract import (
    Answer,
    Arrived,
    Connected,
    Deliver,
    Disconnect,
    Disconnected,
    Effect,
    Event,
    Machine,
    Note,
    Request,
    Transmit,
)
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.machine import ClientMachine
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.mqtt.actions import OpenSession
from resprout.mqtt.decoder import Decoded, PacketDecoder
from resprout.mqtt.encoder import encode
from resprout.mqtt.packets import V5, Packet, Pingresp
from resprout.mqtt.session import ServerLimits, ServerSession
from resprout.mqtt_sessions.driver import ConnectionDriver
from resprout.mqtt_sessions.ports import (
    AdmittedClient,
    ClientHost,
    OpenerCredentials,
    OutwardDoor,
    PacketConnection,
    Upward,
)
from resprout.mqtt_sessions.server import SessionFigures, SessionServer
from resprout.mqtt_sessions.shared import OWN_TOPICS
from resprout.mqtt_sessions.tree_session import TreeSession
from resprout.sim.checking import broker_of
from resprout.sim.mqtt.loop import VirtualLoop
from resprout.sim.network import Distances, SignOfLifeBytes
from resprout.sim.nodes import Node, Process, WeighedBodies
from resprout.sim.world import World

LIMITS: Final = ServerLimits(keep_alive_max=60, session_expiry_max=86_400)
INCARNATION_MAX: Final = 1 << 20
CLOSE_SECONDS: Final = 3.0
LIFE_US: Final = 1_000
"""Embedded clients of one name that begin so long after each other have rising incarnations at all brokers."""
MakeLinks = Callable[[Machine, str, int, Random], Links]


def listener_of(broker: str) -> str:
    """Return the name of the node to which MQTT clients connect."""
    return f"{broker}~mqtt"


class VirtualMqtt:
    """The guest of a broker's node. It outlives processes, as the node does."""

    def __init__(
        self,
        world: World,
        distances: Distances,
        host: Node,
        links: LinkOptions,
        body_bytes: int,
        note: Callable[[str, Note], None],
    ) -> None:
        self.world = world
        self.distances = distances
        self.host = host
        self.links = links
        self.body_bytes = body_bytes
        self.note = note
        self.rng: Random
        """Of the current process."""
        self.hosts: dict[str, VirtualHost] = {}
        """Embedded clients by the name of their node."""
        self.counter = 0
        self._server: VirtualServer | None = None
        self._waiting: list[Callable[[], None]] = []
        self._node = self.add(listener_of(host.name), self._make, self)

    def add(self, name: str, make: Callable[[int, Random], Machine], above: Any) -> Node:
        """Return a new node inside the broker's."""
        self.distances.place(name, self.host.name)
        node = self.world.add(name, make, above=above)
        node.inside = self.host
        node.is_free = True
        return node

    def processes(self) -> list[Process]:
        """Return the processes that run inside that of the broker."""
        nodes = [self._node, *[host.node for host in self.hosts.values()]]
        return [node.process for node in nodes if node.process is not None]

    def boot(self) -> None:
        """Begin with the broker's process; nothing happens if this one goes on, because only the broker retired."""
        if self._node.process is None:
            self.world.boot(self._node)

    def when_serving(self, call: Callable[[], None]) -> None:
        """Call when MQTT clients are served. An operator who restarts brokers one by one waits for it."""
        if self._server is not None and self._server.is_serving:
            call()
        else:
            self._waiting.append(call)

    def serves(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def leave(self, then: Callable[[], None]) -> None:
        if self._server is None:
            then()
        else:
            self._server.leave(then)

    def end(self) -> None:
        """Clean up after the end of the process, or of the run."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        for host in list(self.hosts.values()):
            host.forget()

    def _make(self, incarnation: int, rng: Random) -> Machine:
        self.end()
        self.rng = rng
        return _Listener(self)

    def began(self, process: Process) -> None:
        self._server = VirtualServer(self, process)

    def given(self, process: Process, effect: Deliver | Answer) -> None:
        raise AssertionError("a listener has no application")

    def hear(self, event: Event) -> None:
        assert self._server is not None, "it began with its process"
        self._server.hear(event)


class _Listener:
    """The machine of the listener's node. What it does, it does at once."""

    def __init__(self, mqtt: VirtualMqtt) -> None:
        self._mqtt = mqtt

    def start(self, now_us: int) -> Sequence[Effect]:
        return ()

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        self._mqtt.hear(event)
        return ()


class _Line:
    """No connection does so much at once that others have to wait."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def join(self, take: Callable[[], None]) -> None:
        self._loop.call_soon(take)


class VirtualServer(SessionServer):
    """The sessions of one process."""

    def __init__(self, mqtt: VirtualMqtt, process: Process) -> None:
        self._mqtt = mqtt
        self._process = process
        self.world = mqtt.world
        self.virtual = VirtualLoop(  # type: ignore[abstract] # no sockets, signals and threads
            self.world.alarms, lambda: self.world.now_us, process
        )
        super().__init__(
            self.virtual, _Line(self.virtual), (), SessionFigures(), lambda note: mqtt.note(mqtt.host.name, note)
        )
        self._machine: Any = None
        self._connections: dict[int, VirtualConnection] = {}
        self.is_serving = False
        self.virtual.run(self._begin)

    def _begin(self) -> None:
        self.share_state()
        self._run(self._serve())

    async def _serve(self) -> None:
        await self.until_ready()
        self.is_serving = True
        self.watch_orphans()
        self._mqtt.serves()

    def stop(self) -> None:
        for connection in self._connections.values():
            connection.is_open = False
        for host in self._mqtt.hosts.values():
            host.is_over = True
        self.virtual.end()

    def leave(self, then: Callable[[], None]) -> None:
        """Close in good order, as a broker that is stopped does, and call `then`."""
        self.virtual.run(lambda: self.virtual.create_task(self._leave(then)))

    async def _leave(self, then: Callable[[], None]) -> None:
        self.is_closing = True
        self.is_serving = False
        self._stop_orphans()
        self._stop_sessions()
        for connection in list(self._connections.values()):
            connection.close("the broker stops")
        await self.shared.close()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=CLOSE_SECONDS)
        then()

    def hear(self, event: Event) -> None:
        self.virtual.run(lambda: self._hear(event))

    def _hear(self, event: Event) -> None:
        if isinstance(event, Connected):
            if not self.is_serving:
                self.perform(Disconnect(event.connection, "MQTT clients are not served yet"))
                return
            connection = VirtualConnection(self, event.connection)
            self._connections[event.connection] = connection
            ConnectionDriver(self, connection, ServerSession(LIMITS, self.now_us(), 0))
        elif isinstance(event, Arrived):
            if (known := self._connections.get(event.connection)) is not None:
                known.receive(event.frame)
        elif isinstance(event, Disconnected) and (known := self._connections.pop(event.connection, None)) is not None:
            known.end(event.reason)

    def perform(self, effect: Effect) -> None:
        if self._process.step is not None:
            self.world.perform(self._process, [effect])

    # -- what sessions need --------------------------------------------------------------------------------------------

    @property
    def machine(self) -> Any:
        """The broker's machine: that of its last life while it has retired and not returned."""
        process = self._mqtt.host.process
        if process is not None:
            self._machine = broker_of(process.machine)
        return self._machine

    @property
    def broker_name(self) -> str:
        return self._mqtt.host.name

    def now_us(self) -> int:
        return self.world.now_us

    def wall_us(self) -> int:
        return self.world.now_us

    def token_hex(self, size: int) -> str:
        return self._mqtt.rng.randbytes(size).hex()

    def call_idly(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self.virtual.call_idly(seconds, callback)

    def next_incarnation(self, name: str) -> int:
        process = self._mqtt.host.process
        met = process.machine.latest_incarnation(name) if process is not None else 0  # type: ignore[attr-defined]
        return max(self.now_us() // LIFE_US + 1, met + 1)

    def make_host(
        self,
        machine: ClientMachine | ConsumerMachine,
        name: str,
        incarnation: int,
        who: OpenerCredentials,
        hear: Callable[[Upward], None],
        door: OutwardDoor | None,
    ) -> ClientHost:
        return VirtualHost(self._mqtt, self, machine, name, incarnation, hear)

    async def admit(self, connection: PacketConnection, action: OpenSession) -> AdmittedClient:
        return AdmittedClient(action.client_id, action.client_id, OpenerCredentials("", also=(OWN_TOPICS,)), None)

    def refused(self, connection: PacketConnection, why: str, who: str = "") -> None:
        self.note(Note("note", {"detail": f"refused MQTT client {who}: {why}"}))

    def may_publish_for(self, session: TreeSession, topic: str) -> bool:
        return True


class VirtualConnection:
    """One end of a connection, at the broker."""

    address = ""
    proven = None

    def __init__(self, server: VirtualServer, number: int) -> None:
        self.take: Callable[[Sequence[Decoded]], None] = _nothing
        self.lost: Callable[[str], None] = _nothing
        self.drained: Callable[[], None] = _nothing
        self.is_open = True
        self._server = server
        self._number = number
        self._decoder = PacketDecoder()
        self._is_held = False
        self._waiting: list[Decoded] = []
        self._out: list[Packet] = []

    @property
    def is_writable(self) -> bool:
        return self.is_open

    def receive(self, data: bytes) -> None:
        self._waiting += self._decoder.feed(data)
        self._take()

    def end(self, reason: str) -> None:
        """Tell the driver that the connection is gone."""
        self.is_open = False
        self._waiting.clear()
        lost, self.lost = self.lost, _nothing
        lost(reason)

    def send(self, packet: Packet) -> None:
        if self.is_open:
            self._out.append(packet)

    def flush(self) -> None:
        if self._out and self.is_open:
            data = b"".join([encode(packet, self._decoder.version or V5) for packet in self._out])
            is_sign = all(isinstance(packet, Pingresp) for packet in self._out)
            self._out.clear()
            self._server.perform(Transmit(self._number, SignOfLifeBytes(data) if is_sign else data))

    def close(self, reason: str) -> None:
        if self.is_open:
            self.flush()
            self.is_open = False
            self._server.perform(Disconnect(self._number, reason))
            self._server.loop.call_soon(self.end, reason)

    def hold(self) -> None:
        self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._server.loop.call_soon(self._take)

    def stop_deadline(self) -> None:
        """Do nothing: clients of scenarios send CONNECT at once."""

    def _take(self) -> None:
        if self._waiting and self.is_open and not self._is_held:
            some, self._waiting = self._waiting, []
            self.take(some)


class VirtualHost:
    """Runs the machine of an embedded client as a node inside the broker's."""

    def __init__(
        self,
        mqtt: VirtualMqtt,
        server: VirtualServer,
        machine: Machine,
        name: str,
        incarnation: int,
        hear: Callable[[Upward], None],
    ) -> None:
        self.is_over = False
        self._mqtt = mqtt
        self._server = server
        self._hear = hear

        def make(life: int, rng: Random) -> Machine:
            return Links(
                machine, name=name, role="client", incarnation=incarnation, rng=rng, options=mqtt.links,
                first_epoch=1 + rng.randrange(1 << 30), incarnation_max=lambda: INCARNATION_MAX,
                bodies=WeighedBodies(mqtt.body_bytes),
            )  # fmt: skip

        mqtt.counter += 1
        self.node = mqtt.add(f"{listener_of(mqtt.host.name)}~{mqtt.counter}", make, self)
        mqtt.hosts[self.node.name] = self

    def start(self) -> None:
        if not self.is_over:
            self._mqtt.world.boot(self.node)

    def handle(self, event: Request) -> None:
        if not self.is_over and self.node.process is not None:
            self._mqtt.world.request(self.node.process, event.body, event.token)

    async def close(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        if (process := self.node.process) is not None:
            self._mqtt.world.network.close_all(process, "the client leaves")
            self._mqtt.world.halt(process)
        self.forget()

    def forget(self) -> None:
        """Remove the node, which does not run any more."""
        self._mqtt.hosts.pop(self.node.name, None)
        self._mqtt.world.nodes.pop(self.node.name, None)

    def began(self, process: Process) -> None:
        """Do nothing: the machine has begun."""

    def given(self, process: Process, effect: Deliver | Answer) -> None:
        self._pass(effect)

    def noted(self, note: Note) -> None:
        self._server.loop.call_soon(self._pass, note)

    def _pass(self, effect: Upward) -> None:
        if not self.is_over:
            self._server.virtual.run(lambda: self._hear(effect))


def _nothing(*_: object) -> None:
    """Ignore a callback that is not set, or no longer set."""
