"""Sessions and wills whose process is gone (`Orphans`): publishes their wills, and ends the sessions that expire.

Each MQTT broker subscribes to a topic that names its process (`SharedState.home`). When that subscription is gone, the
process is dead. This takes `ghost_us` after the death of a broker, and clients that connect to another broker before it
take back their will.

Every broker watches the notes of all sessions and the one that ranks first for a session acts. The others follow later,
in case it dies too. To act, a broker opens a client with the name of the session. So a client that returns at the same
time replaces it, or is served after it. The broker then waits for all notes that are safe, and does nothing if the
session has changed.
"""

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from resprout.core.errors import UsageError
from resprout.mqtt.limits import NEVER_SECONDS
from resprout.mqtt_sessions.embedded import OpenError
from resprout.mqtt_sessions.ports import OpenerCredentials
from resprout.mqtt_sessions.records import SESSIONS_MAX, SessionNote
from resprout.mqtt_sessions.shared import HOMES, OWN_TOPICS
from resprout.mqtt_sessions.sources import durable_name, end_durable
from resprout.mqtt_sessions.tree_session import TreeSession

if TYPE_CHECKING:
    from resprout.mqtt_sessions.server import SessionServer

CHECK_SECONDS: Final = 3.0
GONE_SECONDS: Final = 5.0
"""Time for which the subscription of a process must be gone until the process counts as dead."""
RANK_SECONDS: Final = 15.0
"""Head start of each broker over the next one."""
OPEN_SECONDS: Final = 20.0
ROUND_MAX: Final = 200
"""Maximum number of sessions handled per check."""
LEFTOVER_SECONDS: Final = 2.0
"""Delay before durable subscriptions of an ended session are ended here, if its own process did not."""


class Orphans:
    def __init__(self, server: "SessionServer") -> None:
        self._server = server
        self._gone_since: dict[str, float] = {}
        """When the subscription of each absent process was first missing."""
        self._given_up: dict[str, int] = {}
        """Stamps of notes for which the tree refused this broker, by name of the session."""
        self._tasks: set[asyncio.Task[None]] = set()
        server.shared.ended = self.ended

    async def watch(self) -> None:
        server = self._server
        while True:
            await server.rest(CHECK_SECONDS)
            for note, ends in self.due(server.now_us() / 1e6)[:ROUND_MAX]:
                try:
                    await self._settle(note, ends)
                except OpenError as error:
                    self._given_up[note.name] = note.stamp
                    self._server.notify(f"cannot act for MQTT client {note.name}, whose broker is gone: {error}")
                except (TimeoutError, UsageError):  # try again at the next check
                    continue

    def due(self, now_s: float) -> list[tuple[SessionNote, bool]]:
        """Return the notes of orphans with a due will or whose session expired, and whether the session has to end."""
        server, own = self._server, self._server.shared.home
        by_home: dict[str, list[SessionNote]] = {own: []}
        for note in server.shared.records.notes():
            by_home.setdefault(note.home, []).append(note)
        living = [home for home in by_home if home == own or server.has_audience(HOMES + home)]
        for home in living:
            self._gone_since.pop(home, None)
        found = []
        for home in [home for home in by_home if home not in living]:
            gone_s = now_s - self._gone_since.setdefault(home, now_s) - GONE_SECONDS
            for note in by_home[home]:
                if self._given_up.get(note.name) == note.stamp:
                    continue
                if not any(_wants(note, gone_s)):
                    continue
                ends, has_will = _wants(note, gone_s - RANK_SECONDS * _rank(note.name, own, living))
                if ends or has_will:
                    found.append((note, ends))
        for home in [home for home in self._gone_since if home not in by_home]:
            del self._gone_since[home]
        if len(self._given_up) > SESSIONS_MAX:
            self._given_up.clear()
        return found

    async def _settle(self, note: SessionNote, ends: bool) -> None:
        server = self._server
        async with server.opening.only(note.name):
            if note.name in server.sessions or server.is_closing or not self._is_current(note):
                return
            who = OpenerCredentials("", note.identity or None, also=(OWN_TOPICS,))
            session = TreeSession(server, note.name, note.client_id, who, None, 5)
            session.start()
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    await session.began
                    await server.shared.check_sessions()
                if self._is_current(note):
                    session.settle_orphan(note, ends)
                    what = "has expired" if ends else "left a will, which is published"
                    server.notify(f"the MQTT session of {note.name}, whose broker is gone, {what}")
            finally:
                await session.close(ends=False)

    def _is_current(self, note: SessionNote) -> bool:
        known = self._server.shared.records.get(note.name)
        return known is not None and known.note.stamp == note.stamp

    # -- durable subscriptions -----------------------------------------------------------------------------------------

    def ended(self, note: SessionNote) -> None:
        """Handle the end of a session: end its durable subscriptions that this broker holds. Usually the process of the
        session has done so."""
        names = [topic_filter for topic_filter in note.done if self._holds(note.name, topic_filter)]
        if names:
            task = self._server.loop.create_task(self._end_leftovers(note, names))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _end_leftovers(self, note: SessionNote, filters: list[str]) -> None:
        await asyncio.sleep(LEFTOVER_SECONDS)
        internal = OpenerCredentials("", internal=True)
        for topic_filter in filters:
            is_back = self._server.shared.records.get(note.name) is not None
            if not is_back and not self._server.is_closing and self._holds(note.name, topic_filter):
                await end_durable(self._server, note.name, topic_filter, internal, None)

    def _holds(self, name: str, topic_filter: str) -> bool:
        home = self._server.machine.home_of(durable_name(name, topic_filter))
        return bool(home == self._server.broker_name)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


def _wants(note: SessionNote, gone_s: float) -> tuple[bool, bool]:
    """Return whether the session has expired and whether its will is due, so long after the end of its process."""
    ends = note.expiry != NEVER_SECONDS and gone_s >= note.expiry
    return ends, bool(note.will) and gone_s >= note.will_delay


def _rank(name: str, own: str, living: list[str]) -> int:
    """Return how many of the living processes come before this one for a session."""
    return sorted(living, key=lambda home: hashlib.sha256(f"{name}/{home}".encode()).digest()).index(own)
