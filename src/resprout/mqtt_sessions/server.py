"""`SessionServer`: the MQTT sessions of one broker, and what their driver provides for them.

Every MQTT client becomes a client of the tree (`tree_session`), named by its client identifier or a digest of it. A
session belongs to one identity. A new connection with the same client identifier takes it over, at this broker or at
another one; in the second case the tree reports that the name has moved.

A driver derives its server from this class: `net.mqtt.server` listens on sockets, `sim.mqtt` runs in virtual time.
"""

import abc
import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle, pack_attributes
from resprout.core.contract import EndCode, Note
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.machine import ClientMachine
from resprout.filters.predicate import topic_matches
from resprout.mqtt.actions import OpenSession
from resprout.mqtt.mapping import is_retained
from resprout.mqtt.reasons import Reason, reason_name
from resprout.mqtt_sessions.driver import ConnectionDriver
from resprout.mqtt_sessions.opening import SessionOpening
from resprout.mqtt_sessions.orphans import Orphans
from resprout.mqtt_sessions.ports import (
    AdmittedClient,
    ClientHost,
    OpenerCredentials,
    OutwardDoor,
    PacketConnection,
    TurnLine,
    Upward,
)
from resprout.mqtt_sessions.records import KEPT
from resprout.mqtt_sessions.shared import SharedState
from resprout.mqtt_sessions.sources import DurableSource
from resprout.mqtt_sessions.tree_session import TreeSession
from resprout.values.rows import RETAIN_KEY, value_cost

NOTE_SECONDS: Final = 10.0


class SessionFigures(msgspec.Struct):
    """Metrics of sessions since the process started."""

    published: int = 0
    delivered: int = 0
    dropped: int = 0


class SessionServer(abc.ABC):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        line: TurnLine,
        guarantees: Sequence[tuple[str, Guarantee]],
        figures: SessionFigures,
        note: Callable[[Note], None],
    ) -> None:
        """`guarantees` are those of publications by topic filter, of which the first match counts; `note` receives
        messages for the operator."""
        self.loop = loop
        self.line = line
        self.session_figures = figures
        self._guarantees = guarantees
        self.note = note
        self.opening = SessionOpening(self)
        self.sessions: dict[str, TreeSession] = {}
        """Sessions by name in the tree."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_closing = False
        self._quiet_until_s = 0.0
        self._left_out = 0
        """Number of notes that were not logged since the last one."""
        self._watch_task: asyncio.Task[None] | None = None
        self._orphans: Orphans | None = None
        self._shared: SharedState | None = None

    # -- what the driver provides --------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def machine(self) -> Any:
        """Machine of this broker in the tree."""

    @property
    @abc.abstractmethod
    def broker_name(self) -> str: ...

    @abc.abstractmethod
    def now_us(self) -> int: ...

    @abc.abstractmethod
    def wall_us(self) -> int:
        """Return microseconds since 1970."""

    @abc.abstractmethod
    def token_hex(self, size: int) -> str:
        """Return so many random bytes in hexadecimal."""

    @abc.abstractmethod
    def next_incarnation(self, name: str) -> int:
        """Return the incarnation of a new embedded client."""

    @abc.abstractmethod
    def make_host(
        self,
        machine: ClientMachine | ConsumerMachine,
        name: str,
        incarnation: int,
        who: OpenerCredentials,
        hear: Callable[[Upward], None],
        door: OutwardDoor | None,
    ) -> ClientHost:
        """Make the host of an embedded client. `hear` is called with everything for the client, in the same turn of the
        event loop."""

    @abc.abstractmethod
    async def admit(self, connection: PacketConnection, action: OpenSession) -> AdmittedClient:
        """Authenticate a client. Raises AdmissionError if it may not connect or may not use its name."""

    @abc.abstractmethod
    def refused(self, connection: PacketConnection, why: str, who: str = "") -> None:
        """Count and log a refused connection. `why` is one of a fixed set of texts."""

    @abc.abstractmethod
    def may_publish_for(self, session: TreeSession, topic: str) -> bool:
        """Return whether a client that the tree no longer serves had the right to publish on the topic."""

    def call_idly(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call later for housekeeping, which nobody waits for."""
        return self.loop.call_later(seconds, callback)

    async def rest(self, seconds: float) -> None:
        """Wait between two rounds of housekeeping."""
        over = asyncio.Event()
        handle = self.call_idly(seconds, over.set)
        try:
            await over.wait()
        finally:
            handle.cancel()

    # -- the life of the server ----------------------------------------------------------------------------------------

    def share_state(self) -> None:
        """Begin to synchronise with the other MQTT brokers."""
        self._shared = SharedState(self)

    async def until_ready(self) -> None:
        """Wait until this broker has joined the tree and has the sessions, and then care for orphans."""
        await self.shared.ready.wait()
        await self._restore_sessions(self.shared)

    def watch_orphans(self) -> None:
        self._orphans = Orphans(self)
        self._watch_task = self._run(self._orphans.watch())

    async def _restore_sessions(self, shared: SharedState) -> None:
        """Take over the sessions of brokers that have all stopped, if they were kept on disk."""
        if not self.keeps_sessions:
            return
        while True:
            with contextlib.suppress(TimeoutError):
                await shared.check_sessions()
                break
        for message in self.machine.walk_last_values(f"{KEPT}+"):
            if message is not None:
                shared.records.restore(message)

    def _run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _stop_orphans(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
        if self._orphans is not None:
            self._orphans.close()

    def _stop_sessions(self) -> None:
        """Tell clients that the broker stops, and leave the tree. Sessions that outlive their connections continue at
        other brokers."""
        for session in list(self.sessions.values()):
            if session.driver is not None and session.is_connected:
                session.driver.stop(Reason.SERVER_SHUTTING_DOWN, f"{self.broker_name} stops")
            if not session.is_over:
                self._drop(session)
                self._run(session.close(ends=not session.is_persistent))

    # -- sessions ------------------------------------------------------------------------------------------------------

    def open(self, driver: ConnectionDriver, action: OpenSession) -> None:
        driver.connection.stop_deadline()
        self._run(self.opening.open(driver, action))

    @property
    def shared(self) -> SharedState:
        assert self._shared is not None, "connections are accepted after `share_state`"
        return self._shared

    def closes(self, driver: ConnectionDriver, reason: int, text: str) -> None:
        """Count a connection that the machine closes before it has a session, by the reason code."""
        if reason >= Reason.UNSPECIFIED_ERROR and driver.session is None:
            self.refused(driver.connection, f"closed before CONNACK: {reason_name(reason)}")

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

    # -- for sessions --------------------------------------------------------------------------------------------------

    @property
    def keeps_sessions(self) -> bool:
        """Whether sessions survive a restart of all brokers, because last values are on disk."""
        return bool(self.machine.keeps_values)

    def has_audience(self, topic: str) -> bool:
        """Return whether a subscription in the network may match the topic; True if this broker is not certain."""
        return bool(self.machine.has_audience(topic))

    def guarantee_of(self, topic: str, wanted: str | None) -> Guarantee:
        """Return the guarantee of a publication: the requested one, else that of the first matching rule. Raises
        UsageError if the requested value is invalid."""
        if wanted is not None:
            return Guarantee.parse(wanted)
        for topic_filter, guarantee in self._guarantees:
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
        machine = self.machine
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
        if not self.may_publish_for(session, topic):
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
        consumers = self.machine.consumers_of(source.name)
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
        self.note(Note("note", {"detail": detail + more}))


_REASONS: Final = {
    EndCode.REPLACED: Reason.SESSION_TAKEN_OVER,
    EndCode.REOPENED: Reason.SESSION_TAKEN_OVER,
    EndCode.OUTLIVED: Reason.SESSION_TAKEN_OVER,
    EndCode.FORBIDDEN: Reason.NOT_AUTHORIZED,
    EndCode.SLOW: Reason.QUOTA_EXCEEDED,
    EndCode.OUT_OF_BOUNDS: Reason.UNSPECIFIED_ERROR,
}
