"""Opens the session of an MQTT client: a new one, one of this broker, or one taken over from another broker.

Connections with the same client identifier are handled one at a time. A session of another broker is taken over by
opening a client with the same name. This broker then waits for everything that was safe (`SharedState.check_sessions`)
and resumes the session from its last note.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from resprout.core.contract import EndCode
from resprout.core.errors import WireError
from resprout.mqtt.actions import OpenSession
from resprout.mqtt.reasons import Reason
from resprout.mqtt.state import SessionState
from resprout.mqtt_sessions.driver import ConnectionDriver
from resprout.mqtt_sessions.embedded import OpenError
from resprout.mqtt_sessions.ports import AdmissionError, AdmittedClient, OpenerCredentials
from resprout.mqtt_sessions.tree_session import TreeSession

if TYPE_CHECKING:
    from resprout.mqtt_sessions.server import SessionServer

OPEN_SECONDS: Final = 20.0
"""Timeout for the tree to accept a client, which is delayed while a repair runs."""


class SessionOpening:
    def __init__(self, server: "SessionServer") -> None:
        self._server = server
        self._locks: dict[str, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def only(self, name: str) -> AsyncIterator[None]:
        """Let one task at a time open or end the session with this name."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(name, None)

    async def open(self, driver: ConnectionDriver, action: OpenSession) -> None:
        try:
            await self._admit(driver, action)
        except AdmissionError as refusal:
            self._server.refused(driver.connection, refusal.why, action.client_id or "without an identifier")
            if driver.connection.is_open:
                driver.run(driver.machine.refused(refusal.reason, str(refusal), self._server.now_us()))

    async def _admit(self, driver: ConnectionDriver, action: OpenSession) -> None:
        """Authenticate the client and open its session. Raises AdmissionError if it is refused."""
        connection = driver.connection
        admitted = await self._server.admit(connection, action)
        name, who = admitted.name, admitted.who
        async with self.only(name):
            if not connection.is_open or self._server.is_closing:
                return
            before = self._server.sessions.get(name)
            if before is not None:
                self._disconnect_previous(before)
                if action.clean_start or not _is_same(before.who, who):
                    self._discard(before)
                if before.is_over:
                    await self._server.end_now(before)
                    before = None
            if before is not None:
                self._resume(before, driver)
            else:
                await self._begin(driver, action, admitted)

    def _resume(self, session: TreeSession, driver: ConnectionDriver) -> None:
        before = session.driver
        state = before.machine.state if before is not None else None
        if before is not None:
            before.detach()
        session.driver, driver.session = driver, session
        session.version = driver.machine.version
        driver.follow(before)
        driver.run(driver.machine.opened(state, session.client_id, self._server.now_us(), session.name))

    async def _begin(self, driver: ConnectionDriver, action: OpenSession, admitted: AdmittedClient) -> None:
        """Open a session that this broker does not have: a new one, or one of another broker."""
        name, client_id = admitted.name, admitted.client_id
        known = self._server.shared.records.get(name)
        is_known = known is not None
        has_state = known is not None and bool(known.note.data)
        session = TreeSession(
            self._server, name, client_id, admitted.who, admitted.door, driver.machine.version,
            is_persistent=action.expiry > 0 or has_state,
        )  # fmt: skip
        session.start()
        state = None
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await session.began
                if is_known:
                    state = await self._recall(session, action.clean_start)
        except (TimeoutError, OpenError, WireError) as error:
            await self._server.end_now(session, ends=False)
            is_forbidden = isinstance(error, OpenError) and error.code is EndCode.FORBIDDEN
            reason = Reason.NOT_AUTHORIZED if is_forbidden else Reason.SERVER_UNAVAILABLE
            raise AdmissionError(reason, "the tree refused the client", str(error)) from None
        if not driver.connection.is_open or self._server.is_closing:
            await self._server.end_now(session, ends=not session.is_persistent)
            return
        self._server.sessions[name] = session
        session.driver, driver.session = driver, session
        driver.run(driver.machine.opened(state, client_id, self._server.now_us(), name))
        if session.is_persistent and session.next_note == 1 and not session.is_over:
            session.save()

    async def _recall(self, session: TreeSession, clean_start: bool) -> SessionState | None:
        """Return the state of a session taken over from another broker; None if there is none, or if it has to end.
        Raises TimeoutError if the tree does not answer and WireError if the note is invalid."""
        await self._server.shared.check_sessions()
        known = self._server.shared.records.get(session.name)
        if known is None or known.note.data is None:
            return None
        note, data = known.note, known.note.data
        if not data:  # a will of an earlier connection, which the client now takes back
            session.forget(note)
            return None
        is_same = note.identity == (session.who.identity or "")
        if clean_start or not is_same:
            ends = [session.end_elsewhere(topic_filter) for topic_filter in note.done]
            await asyncio.gather(*ends)
            session.forget(note, has_will=is_same)
            return None
        state = SessionState.load(data, session.client_id, session.name)
        for packet_id in known.received:
            state.mark_received(packet_id)
        session.adopt(note, [one.request.filter for one in state.subscriptions if one.group])
        return state

    def _disconnect_previous(self, session: TreeSession) -> None:
        driver = session.driver
        if driver is not None and driver.connection.is_open:
            driver.stop(Reason.SESSION_TAKEN_OVER, "another connection has this client identifier")

    def _discard(self, session: TreeSession) -> None:
        if (driver := session.driver) is not None and driver.session is session:
            driver.run(driver.machine.discard(self._server.now_us()))
        self._server.end(session)


def _is_same(one: OpenerCredentials, other: OpenerCredentials) -> bool:
    """Return whether the new connection may resume the session: it must have authenticated as the same identity and
    certificate."""
    return (one.identity, one.proven) == (other.identity, other.proven)
