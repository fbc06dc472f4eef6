"""MQTT server of one broker: its listeners and connections. `SessionServer` has the sessions.

The broker's rules apply: a user name is an identity and the password its secret; client certificates work as on the
broker's own port.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from resprout.core.contract import Note
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.machine import ClientMachine
from resprout.edge.rights import may_publish
from resprout.links.handshake import shorten
from resprout.mqtt.actions import OpenSession
from resprout.mqtt.session import ServerLimits, ServerSession
from resprout.mqtt_sessions.driver import ConnectionDriver
from resprout.mqtt_sessions.ports import AdmittedClient, OpenerCredentials, OutwardDoor, PacketConnection, Upward
from resprout.mqtt_sessions.server import SessionFigures, SessionServer
from resprout.mqtt_sessions.shared import OWN_TOPICS, SharedState
from resprout.mqtt_sessions.tree_session import TreeSession
from resprout.net.accounts import MqttAccount
from resprout.net.address import Address, ListeningPlace, take_place
from resprout.net.connection_limits import ConnectionCounts, Unidentified, is_local, source_of
from resprout.net.door import Door
from resprout.net.event_loop import HeavyLine, epoch_us, now_us, wall_us
from resprout.net.mqtt.admission import Admission, name_of
from resprout.net.mqtt.connection import MqttConnection
from resprout.net.mqtt.embedded import EmbeddedHost
from resprout.net.mqtt.layers import Layer, Layers, TlsLayer, WebSocketLayer, websocket_library
from resprout.net.mqtt.proxy import is_proxy
from resprout.net.mqtt.settings import SCHEMES, MqttSettings
from resprout.net.mqtt.sys_topics import attributes_for, figures_of
from resprout.net.sessions import next_incarnation
from resprout.net.tls import Keyring, Tls

if TYPE_CHECKING:
    from resprout.net.broker import RunningBroker

STACK: Final = "resprout"
"""Stack that the server requires, because it uses keys on other topics, durable subscriptions and groups."""
CLOSE_SECONDS: Final = 3.0
FAREWELL_TURNS: Final = 20
FAREWELL_SECONDS: Final = 0.01
VERSION_NAMES: Final = {3: "MQTT 3.1", 4: "MQTT 3.1.1", 5: "MQTT 5"}


class MqttFigures(SessionFigures):
    """Metrics since the process started."""

    connections: int = 0
    refused: int = 0
    packets_received: int = 0
    packets_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0


class MqttServer(SessionServer):
    """MQTT server. `door` holds the rules and limits of the broker's own port; `note` receives messages for the
    operator."""

    def __init__(
        self, settings: MqttSettings, door: Door, note: Callable[[Note], None], certificates: Tls | None = None
    ) -> None:
        loop = asyncio.get_running_loop()
        self.figures = MqttFigures()
        super().__init__(loop, HeavyLine(loop), settings.guarantees, self.figures, note)
        self.settings = settings
        self._door = door
        self._admission = Admission(door)
        # Embedded clients present their MQTT client's credentials to other brokers, never the broker's certificate.
        self._outward = Keyring(Tls(certificates.authority)) if certificates is not None else None
        self._broker: RunningBroker | None = None
        self._places: dict[str, ListeningPlace] = {}
        self._connections: dict[int, MqttConnection] = {}
        self._numbers = 0
        self._strangers: Unidentified[MqttConnection] = Unidentified(settings.greetings_max)
        self._crowd = ConnectionCounts()
        self._serving_task: asyncio.Task[None] | None = None
        self._limits = ServerLimits(
            receive_maximum=settings.receive_maximum,
            packet_bytes_max=settings.packet_bytes_max,
            topic_alias_max=settings.topic_alias_max,
            session_expiry_max=settings.session_expiry_max,
            keep_alive_max=settings.keep_alive_max,
            connect_seconds=settings.connect_seconds,
            response_information=settings.response_topics,
        )
        self.serving = asyncio.Event()
        """Event that is set once MQTT clients can connect."""
        if settings.ws or settings.wss:
            websocket_library()

    # -- for the broker's process --------------------------------------------------------------------------------------

    async def take_places(self) -> None:
        """Bind the listeners. Raises ListenError if an address is not available."""
        for kind, address in self.settings.places.items():
            self._places[kind] = await take_place(address)

    def begin(self, broker: "RunningBroker") -> None:
        """Accept MQTT clients as soon as this broker has joined the tree and has the sessions."""
        if broker.stack != STACK:
            raise UsageError(f"MQTT needs the stack {STACK!r}; this broker runs {broker.stack!r}")
        self._broker = broker
        broker.books.mqtt = self
        self.share_state()
        self._serving_task = self._run(self._serve(self.shared))

    async def _serve(self, shared: SharedState) -> None:
        await self.until_ready()
        for kind, place in self._places.items():
            await place.serve(partial(self._accept, kind))
            self.note(Note("mqtt", {"detail": f"{SCHEMES[kind]}://{place.address}"}))
        self.serving.set()
        self.watch_orphans()
        if (period_s := self.settings.sys_seconds) > 0:
            since_s = time.monotonic()
            while not self.is_closing:
                self._publish_metrics(shared, period_s, since_s)
                await asyncio.sleep(period_s)

    def _publish_metrics(self, shared: SharedState, period_s: int, since_s: float) -> None:
        attributes = attributes_for(period_s)
        for topic, text in figures_of(self.broker.name, self.account(), since_s).items():
            with contextlib.suppress(UsageError):  # the store is full: skip this figure
                guarantee, keys = self.retaining(shared.name, topic, text.encode(), attributes, Guarantee.CAUSAL)
                shared.publish(topic, text.encode(), guarantee, attributes, keys)

    @property
    def is_serving(self) -> bool:
        return self.serving.is_set()

    @property
    def addresses(self) -> dict[str, Address]:
        return {kind: place.address for kind, place in self._places.items()}

    @property
    def broker(self) -> "RunningBroker":
        assert self._broker is not None, "connections are accepted after begin()"
        return self._broker

    async def close(self) -> None:
        self.is_closing = True
        if self._serving_task is not None:
            self._serving_task.cancel()
        self._stop_orphans()
        for place in self._places.values():
            place.close()
        self._stop_sessions()
        for connection in list(self._connections.values()):
            connection.close("the broker stops")
        for _ in range(FAREWELL_TURNS):  # let clients close their side first
            if not self._connections:
                break
            await asyncio.sleep(FAREWELL_SECONDS)
        for connection in list(self._connections.values()):
            connection.abort("the broker stops")
        self._admission.close()
        if self._shared is not None:
            await self._shared.close()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=CLOSE_SECONDS)
            for task in list(self._tasks):
                task.cancel()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _accept(self, kind: str) -> MqttConnection:
        layers: list[Layer] = []
        if kind in ("tls", "wss"):
            assert self._door.keyring is not None, "the settings were checked"
            layers.append(TlsLayer(self._door.keyring.accept()))
        if kind in ("ws", "wss"):
            layers.append(WebSocketLayer())
        connection = MqttConnection(self, kind, Layers(tuple(layers)))
        ConnectionDriver(self, connection, ServerSession(self._limits, now_us(), epoch_us()))
        return connection

    def entered(self, connection: MqttConnection) -> None:
        """Register a new connection, or close it if a limit is reached."""
        self._numbers += 1
        connection.number = self._numbers
        self._connections[connection.number] = connection
        self._crowd.enter(source_of(connection.address))
        self.figures.connections += 1
        strangers = self._strangers
        while len(strangers) >= strangers.places or (
            len(strangers) and len(self._connections) > self.settings.connections_max
        ):
            stranger = strangers.next_to_close()
            assert stranger is not None, "there is one to close"
            strangers.leave(stranger)
            self.refused(stranger, f"{strangers.places} MQTT connections without CONNECT is the limit")
            stranger.abort("closed without CONNECT to make room for another connection")
        if self.is_closing:
            connection.abort("the broker stops")
        elif self._is_crowded(connection):
            pass
        elif len(self._connections) > self.settings.connections_max:
            self.refused(connection, f"{self.settings.connections_max} MQTT connections is the limit")
            connection.abort("too many connections")
        else:
            strangers.enter(connection)

    def _is_crowded(self, connection: MqttConnection) -> bool:
        """Close the connection if its address has too many. Return whether it was closed."""
        source, most = source_of(connection.address), self._door.limits.address_connections
        if is_local(source) or self._crowd[source] <= most or is_proxy(connection.address, self.settings.proxies):
            return False
        self.refused(connection, f"{most} connections from one address is the limit")
        connection.abort("too many connections from this address")
        return True

    def found_address(self, connection: MqttConnection, address: str) -> None:
        """Count a connection from a proxy for the address of the client that the proxy announced."""
        self._strangers.leave(connection)
        self._crowd.leave(source_of(connection.address))
        connection.address = address
        self._crowd.enter(source_of(address))
        if not self._is_crowded(connection):
            self._strangers.enter(connection)

    def left(self, connection: MqttConnection) -> None:
        if self._connections.pop(connection.number, None) is not None:
            self._strangers.leave(connection)
            self._crowd.leave(source_of(connection.address))

    def refused(self, connection: PacketConnection, why: str, who: str = "") -> None:
        """Count and log a refused connection. `why` is one of a fixed set of texts."""
        self.figures.refused += 1
        named = f"MQTT client {shorten(who)}" if who else "an MQTT client"
        if self._broker is not None:
            self.broker.host.reception.turned_away(f"{named} from {connection.address}", why)

    def open(self, driver: ConnectionDriver, action: OpenSession) -> None:
        self._strangers.leave(cast(MqttConnection, driver.connection))
        super().open(driver, action)

    # -- for sessions --------------------------------------------------------------------------------------------------

    @property
    def machine(self) -> Any:
        return self.broker.books.machine

    @property
    def broker_name(self) -> str:
        return self.broker.name

    def now_us(self) -> int:
        return now_us()

    def wall_us(self) -> int:
        return wall_us()

    def token_hex(self, size: int) -> str:
        return secrets.token_hex(size)

    def next_incarnation(self, name: str) -> int:
        return next_incarnation(self.broker.host.inquiries.latest_incarnation(name))

    def make_host(
        self,
        machine: ClientMachine | ConsumerMachine,
        name: str,
        incarnation: int,
        who: OpenerCredentials,
        hear: Callable[[Upward], None],
        door: OutwardDoor | None,
    ) -> EmbeddedHost:
        outward = cast(Door | None, door)
        return EmbeddedHost(machine, name, incarnation, lambda: self.broker.host, who, hear, outward)

    async def admit(self, connection: PacketConnection, action: OpenSession) -> AdmittedClient:
        identity = await self._admission.identify(connection.address, action.username, action.password)
        name, client_id = name_of(action.client_id, identity)
        self._admission.judge(self.broker, name, connection.proven, identity)
        who = OpenerCredentials(connection.address, identity, connection.proven, also=(OWN_TOPICS,))
        return AdmittedClient(name, client_id, who, self._door_for(who, action))

    def _door_for(self, who: OpenerCredentials, action: OpenSession) -> Door:
        """Return the credentials that the embedded client presents to other brokers: those of the MQTT client."""
        login = None
        if self._door.has_rules and who.identity is not None and action.password is not None:
            login = f"{who.identity}:{action.password.decode()}"
        return Door(self._outward, login=login)

    def may_publish_for(self, session: TreeSession, topic: str) -> bool:
        entrance = self._door.judge("client", session.name, session.who.proven, session.who.identity)
        return not entrance.fault and (entrance.rights is None or may_publish(entrance.rights, topic))

    # -- what is told --------------------------------------------------------------------------------------------------

    def account(self) -> MqttAccount:
        figures, machine = self.figures, self.broker.books.machine
        retained, retained_bytes = machine.value_count if machine is not None else (0, 0)
        return MqttAccount(
            addresses=tuple([f"{SCHEMES[kind]}://{address}" for kind, address in self.addresses.items()]),
            sessions=len(self.sessions),
            connections=len(self._connections),
            connected=figures.connections,
            refused=figures.refused,
            packets_received=figures.packets_received,
            packets_sent=figures.packets_sent,
            bytes_received=figures.bytes_received,
            bytes_sent=figures.bytes_sent,
            publications=figures.published,
            deliveries=figures.delivered,
            retained=retained,
            retained_bytes=retained_bytes,
        )

    def protocol_of(self, client: str) -> str:
        session = self.sessions.get(client)
        if session is not None:
            return VERSION_NAMES.get(session.version, "MQTT")
        return "MQTT state" if self._shared is not None and client == self._shared.name else ""
