"""MQTT server of one broker: its listeners, connections and sessions.

Every MQTT client becomes a client of the tree (`tree_session`), named by its client identifier or a digest of it. The
broker's rules apply: a user name is an identity and the password its secret; client certificates work as on the
broker's own port.

A session belongs to one identity. A new connection with the same client identifier takes it over, at this broker or at
another one; in the second case the tree reports that the name has moved.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from resprout.core.bundle import Bundle, pack_attributes
from resprout.core.contract import EndCode, Note
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.edge.rights import may_publish
from resprout.filters.predicate import topic_matches
from resprout.links.handshake import shorten
from resprout.mqtt.actions import OpenSession
from resprout.mqtt.mapping import is_retained
from resprout.mqtt.reasons import Reason, reason_name
from resprout.mqtt.session import ServerLimits, ServerSession
from resprout.net.accounts import MqttAccount
from resprout.net.address import Address, ListeningPlace, take_place
from resprout.net.connection_limits import ConnectionCounts, Unidentified, is_local, source_of
from resprout.net.door import Door
from resprout.net.event_loop import HeavyLine, epoch_us, now_us
from resprout.net.mqtt.connection import MqttConnection
from resprout.net.mqtt.driver import ConnectionDriver
from resprout.net.mqtt.layers import Layer, Layers, TlsLayer, WebSocketLayer, websocket_library
from resprout.net.mqtt.opening import SessionOpening
from resprout.net.mqtt.orphans import Orphans
from resprout.net.mqtt.proxy import is_proxy
from resprout.net.mqtt.records import KEPT
from resprout.net.mqtt.settings import SCHEMES, MqttSettings
from resprout.net.mqtt.shared import SharedState
from resprout.net.mqtt.sources import DurableSource
from resprout.net.mqtt.sys_topics import attributes_for, figures_of
from resprout.net.mqtt.tree_session import TreeSession
from resprout.net.tls import Keyring, Tls
from resprout.values.rows import RETAIN_KEY, value_cost

if TYPE_CHECKING:
    from resprout.net.broker import RunningBroker

STACK: Final = "resprout"
"""Stack that the server requires, because it uses keys on other topics, durable subscriptions and groups."""
CLOSE_SECONDS: Final = 3.0
NOTE_SECONDS: Final = 10.0
FAREWELL_TURNS: Final = 20
FAREWELL_SECONDS: Final = 0.01
VERSION_NAMES: Final = {3: "MQTT 3.1", 4: "MQTT 3.1.1", 5: "MQTT 5"}


class MqttFigures(msgspec.Struct):
    """Metrics since the process started."""

    connections: int = 0
    refused: int = 0
    packets_received: int = 0
    packets_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    published: int = 0
    delivered: int = 0
    dropped: int = 0


class MqttServer:
    """MQTT server. `door` holds the rules and limits of the broker's own port; `note` receives messages for the
    operator."""

    def __init__(
        self, settings: MqttSettings, door: Door, note: Callable[[Note], None], certificates: Tls | None = None
    ) -> None:
        self.settings = settings
        self.figures = MqttFigures()
        self.loop = asyncio.get_running_loop()
        self.line = HeavyLine(self.loop)
        self._door = door
        self._note = note
        # Embedded clients present their MQTT client's credentials to other brokers, never the broker's certificate.
        outward = Keyring(Tls(certificates.authority)) if certificates is not None else None
        self.opening = SessionOpening(self, door, outward)
        self._broker: RunningBroker | None = None
        self._places: dict[str, ListeningPlace] = {}
        self._connections: dict[int, MqttConnection] = {}
        self._numbers = 0
        self._strangers: Unidentified[MqttConnection] = Unidentified(settings.greetings_max)
        self._crowd = ConnectionCounts()
        self.sessions: dict[str, TreeSession] = {}
        """Sessions by name in the tree."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_closing = False
        self._quiet_until_s = 0.0
        self._left_out = 0
        """Number of notes that were not logged since the last one."""
        self._serving_task: asyncio.Task[None] | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._orphans: Orphans | None = None
        self._limits = ServerLimits(
            receive_maximum=settings.receive_maximum,
            packet_bytes_max=settings.packet_bytes_max,
            topic_alias_max=settings.topic_alias_max,
            session_expiry_max=settings.session_expiry_max,
            keep_alive_max=settings.keep_alive_max,
            connect_seconds=settings.connect_seconds,
            response_information=settings.response_topics,
        )
        self._shared: SharedState | None = None
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
        self._shared = SharedState(broker, self._note)
        self._serving_task = self._run(self._serve(self._shared))

    async def _serve(self, shared: SharedState) -> None:
        await shared.ready.wait()
        await self._restore_sessions(shared)
        for kind, place in self._places.items():
            await place.serve(partial(self._accept, kind))
            self._note(Note("mqtt", {"detail": f"{SCHEMES[kind]}://{place.address}"}))
        self.serving.set()
        self._orphans = Orphans(self)
        self._watch_task = self._run(self._orphans.watch())
        if (period_s := self.settings.sys_seconds) > 0:
            since_s = time.monotonic()
            while not self.is_closing:
                self._publish_metrics(shared, period_s, since_s)
                await asyncio.sleep(period_s)

    async def _restore_sessions(self, shared: SharedState) -> None:
        """Take over the sessions of brokers that have all stopped, if they were kept on disk."""
        if not self.keeps_sessions:
            return
        while True:
            with contextlib.suppress(TimeoutError):
                await shared.check_sessions()
                break
        for message in self.broker.books.machine.walk_last_values(f"{KEPT}+"):
            if message is not None:
                shared.records.restore(message)

    def _publish_metrics(self, shared: SharedState, period_s: int, since_s: float) -> None:
        attributes = attributes_for(period_s)
        for topic, text in figures_of(self.broker.name, self.account(), since_s).items():
            with contextlib.suppress(UsageError):  # the store is full: skip this figure
                guarantee, keys = self.retaining(shared.name, topic, text.encode(), attributes, Guarantee.CAUSAL)
                shared.publish(topic, text.encode(), guarantee, attributes, keys)

    def _run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def addresses(self) -> dict[str, Address]:
        return {kind: place.address for kind, place in self._places.items()}

    @property
    def broker(self) -> "RunningBroker":
        assert self._broker is not None, "connections are accepted after begin()"
        return self._broker

    async def close(self) -> None:
        self.is_closing = True
        for task in (self._serving_task, self._watch_task):
            if task is not None:
                task.cancel()
        if self._orphans is not None:
            self._orphans.close()
        for place in self._places.values():
            place.close()
        for session in list(self.sessions.values()):
            if session.driver is not None and session.is_connected:
                session.driver.stop(Reason.SERVER_SHUTTING_DOWN, f"{self.broker.name} stops")
            if not session.is_over:
                self._drop(session)
                self._run(session.close(ends=not session.is_persistent))
        for connection in list(self._connections.values()):
            connection.close("the broker stops")
        for _ in range(FAREWELL_TURNS):  # let clients close their side first
            if not self._connections:
                break
            await asyncio.sleep(FAREWELL_SECONDS)
        for connection in list(self._connections.values()):
            connection.abort("the broker stops")
        self.opening.close()
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

    def refused(self, connection: MqttConnection, why: str, who: str = "") -> None:
        """Count and log a refused connection. `why` is one of a fixed set of texts."""
        self.figures.refused += 1
        named = f"MQTT client {shorten(who)}" if who else "an MQTT client"
        if self._broker is not None:
            self.broker.host.reception.turned_away(f"{named} from {connection.address}", why)

    def closes(self, driver: ConnectionDriver, reason: int, text: str) -> None:
        """Count a connection that the machine closes before it has a session, by the reason code."""
        if reason >= Reason.UNSPECIFIED_ERROR and driver.session is None:
            self.refused(driver.connection, f"closed before CONNACK: {reason_name(reason)}")

    # -- sessions ------------------------------------------------------------------------------------------------------

    def open(self, driver: ConnectionDriver, action: OpenSession) -> None:
        driver.connection.stop_deadline()
        self._strangers.leave(driver.connection)
        self._run(self.opening.open(driver, action))

    @property
    def shared(self) -> SharedState:
        assert self._shared is not None, "connections are accepted after begin()"
        return self._shared

    # -- the end of sessions -------------------------------------------------------------------------------------------

    def lost(self, session: TreeSession, reason: str, code: EndCode) -> None:
        """Handle a client that the tree no longer serves."""
        driver = session.driver
        if driver is not None and driver.session is session:
            driver.stop(_REASONS.get(code, Reason.SERVER_UNAVAILABLE), reason)
        self._forget(session)

    def end(self, session: TreeSession) -> None:
        """End a session at the request of its machine."""
        self._forget(session)

    def _forget(self, session: TreeSession) -> None:
        if not session.is_over:
            self._drop(session)
            self._run(session.close())

    async def end_now(self, session: TreeSession, ends: bool = True) -> None:
        self._drop(session)
        await session.close(ends)

    def _drop(self, session: TreeSession) -> None:
        """Mark the session as over and remove it. Leaving the tree takes longer and follows."""
        if self.sessions.get(session.name) is session:
            del self.sessions[session.name]
        session.is_over = True
        if session.driver is not None:
            session.driver.detach()

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

    # -- for sessions --------------------------------------------------------------------------------------------------

    @property
    def keeps_sessions(self) -> bool:
        """Whether sessions survive a restart of all brokers, because last values are on disk."""
        return bool(self.broker.books.machine.keeps_values)

    def has_audience(self, topic: str) -> bool:
        """Return whether a subscription in the network may match the topic; True if this broker is not certain."""
        return bool(self.broker.books.machine.has_audience(topic))

    def guarantee_of(self, topic: str, wanted: str | None) -> Guarantee:
        """Return the guarantee of a publication: the requested one, else that of the first matching rule. Raises
        UsageError if the requested value is invalid."""
        if wanted is not None:
            return Guarantee.parse(wanted)
        for topic_filter, guarantee in self.settings.guarantees:
            if topic_matches(topic_filter, topic):
                return guarantee
        return Guarantee.CAUSAL

    def retaining(
        self, writer: str, topic: str, payload: bytes, attributes: dict[str, AttributeValue], guarantee: Guarantee
    ) -> tuple[Guarantee, tuple[str, ...]]:
        """Return the guarantee and the keys of a publication: a retained one is a total (docs/kv.md). Raises UsageError
        if it cannot be retained."""
        if not is_retained(attributes):
            return guarantee, ()
        machine = self.broker.books.machine
        cost = value_cost(topic, (RETAIN_KEY,), len(pack_attributes([attributes])) + len(payload))
        if payload and (excess := machine.excess_of_value(writer, topic, cost)):
            raise UsageError(f"{topic} cannot be retained: {excess}")
        machine.on_value_applied(self._applied)
        return Guarantee.TOTAL, (RETAIN_KEY,)

    def publish_for(
        self,
        session: TreeSession,
        topic: str,
        payload: bytes,
        guarantee: Guarantee,
        attributes: dict[str, AttributeValue],
    ) -> None:
        """Publish for a client that the tree no longer serves, with the client's rights. Raises UsageError if it may
        not publish on the topic."""
        entrance = self._door.judge("client", session.name, session.who.proven, session.who.identity)
        if entrance.fault or (entrance.rights is not None and not may_publish(entrance.rights, topic)):
            raise UsageError(f"{session.name} may not publish on {topic}")
        if self._shared is not None:
            guarantee, keys = self.retaining(self._shared.name, topic, payload, attributes, guarantee)
            self._shared.publish(topic, payload, guarantee, attributes, keys)

    def _applied(self, bundle: Bundle) -> None:
        session = self.sessions.get(bundle.publisher)
        if session is not None:
            for seq in range(bundle.first, bundle.last + 1):
                self.loop.call_soon(session.applied, bundle.stream, seq)

    async def leave_share(self, source: DurableSource) -> None:
        """Stop consuming a shared subscription, and end it if no other session consumes it."""
        await source.until_answered()  # otherwise it may begin later, without a consumer
        consumers = self.broker.books.machine.consumers_of(source.name)
        if consumers is not None and set(consumers) <= {source.consumer_name}:
            await source.end()
        await source.close()

    def notify(self, detail: str) -> None:
        """Log what concerns a client, at most once in `NOTE_SECONDS`, because clients cause it."""
        now_s = self.loop.time()
        if now_s < self._quiet_until_s:
            self._left_out += 1
            return
        more = f"; {self._left_out} more since that was said last" if self._left_out else ""
        self._quiet_until_s, self._left_out = now_s + NOTE_SECONDS, 0
        self._note(Note("note", {"detail": detail + more}))


_REASONS: Final = {
    EndCode.REPLACED: Reason.SESSION_TAKEN_OVER,
    EndCode.REOPENED: Reason.SESSION_TAKEN_OVER,
    EndCode.OUTLIVED: Reason.SESSION_TAKEN_OVER,
    EndCode.FORBIDDEN: Reason.NOT_AUTHORIZED,
    EndCode.SLOW: Reason.QUOTA_EXCEEDED,
    EndCode.OUT_OF_BOUNDS: Reason.UNSPECIFIED_ERROR,
}
