"""Reads of the journal of one broker, or of a log, by a process of Spark: the extent, the beginnings of lives, and
ranges of events page by page.

`JournalView` also finds what retention has deleted meanwhile, and what the journal never held because its broker was
down. The caller decides whether that is an error.

There is one connection for each broker and process (`EventBrokers`). A Python worker of Spark serves many tasks, one
after the other, and is not told when the query is over. So a connection is made when it is first needed, stays for as
long as the process, and is made anew when it broke. It belongs to an event loop in a thread of its own, because a
session needs heartbeats. A client whose broker is gone is served by another one, which keeps other events or none; a
question about a journal is answered from that journal, or not at all. A log is read at any broker: one that does not
answer, or whose replica is behind, is passed over.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import datetime
from typing import Final, Protocol

import msgspec

from resprout.client.background import Background
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ClientError, ConnectError, gap_text
from resprout.client.past_events import Offset, Start, read_request
from resprout.core.partitions import split_name
from resprout.edge.messages import EventRead
from resprout.edge.requests import EventsAnswered, ReadRequest
from resprout.logs.declaration import LOG_PREFIX
from resprout.spark.options import AccessOptions, DataLossError, JournalRange, SourceError

PAUSE_S: Final = 0.5
"""Between two attempts."""
CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""A broker that has not answered by then is asked again, over a new connection."""

PAGE_BYTES: Final = 1 << 20
"""Asked for at once; a broker gives no more than it wants to."""
SCAN_BYTES: Final = 256 << 10
"""Of what is only looked through."""
LAG_TRIES: Final = 20
"""Attempts to read a log that ends before the requested offset, while its replicas catch up."""
LOOK_BYTES: Final = 1
"""Of what is looked at for its life only: one event."""


class EventBrokers:
    """Those of one list of servers."""

    def __init__(self, access: AccessOptions) -> None:
        self._access = access
        self._background = Background("resprout-spark")
        self._clients: dict[str, Client] = {}
        """By server."""
        self._homes: dict[str, str] = {}
        """By journal: the server that was last seen to keep it."""
        self._locks: dict[str, asyncio.Lock] = {}

    def ask(self, request: ReadRequest) -> EventsAnswered:
        """What the broker says that keeps the journal of the request, or, when that names none, the first that keeps
        any. SourceError when there is no answer for as long as `timeout` says."""
        return self.begin(request).result()

    def begin(self, request: ReadRequest) -> "Future[EventsAnswered]":
        """The same, while the caller does something else."""
        return self._background.submit(self._ask(request))

    async def _ask(self, request: ReadRequest) -> EventsAnswered:
        deadline = time.monotonic() + self._access.timeout_s
        while True:
            troubles = []
            for server in self._in_turn(request.journal):
                try:
                    answer = await self._ask_at(server, request)
                except (ClientError, TimeoutError) as error:
                    troubles.append(f"{server}: {str(error) or 'no answer'}")
                    continue
                if (why := _not_yet(request, answer)) or (not answer.journal and answer.retryable):
                    troubles.append(f"{server}: {why or answer.reason}")
                    continue
                if answer.journal and request.journal in ("", answer.journal):
                    self._homes[answer.journal] = server
                    return answer
                kept = f"keeps {answer.journal}" if answer.journal else answer.reason
                troubles.append(f"{server}: {kept}")
            if time.monotonic() >= deadline:
                wanted = f"the journal {request.journal}" if request.journal else "a broker that keeps events"
                tried = "; ".join(dict.fromkeys(troubles))
                raise SourceError(f"{wanted} was not found for {self._access.timeout_s:g} s: {tried}")
            await asyncio.sleep(PAUSE_S)

    def _in_turn(self, journal: str) -> list[str]:
        """Where the journal was last, and then everywhere: a broker may have moved. Partitions of a log begin at
        different servers."""
        home = self._homes.get(journal)
        turn = (split_name(journal)[1] or 0) % len(self._access.servers)
        servers = (*self._access.servers[turn:], *self._access.servers[:turn])
        return sorted(servers, key=lambda server: server != home)

    async def _ask_at(self, server: str, request: ReadRequest) -> EventsAnswered:
        """ClientError or TimeoutError when it did not answer; the next attempt begins with a new connection."""
        client = await self._client(server)
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await client.read_events(request)
        except (ClientError, TimeoutError):
            await self._drop(server, client)
            raise
        if not answer.journal and not is_log(request.journal):  # lost, or served by a broker that keeps nothing
            await self._drop(server, client)
        return answer

    async def _client(self, server: str) -> Client:
        async with self._locks.setdefault(server, asyncio.Lock()):
            client = self._clients.get(server)
            if client is None:
                access = self._access
                patience_s = min(CONNECT_S, access.timeout_s)
                try:
                    client = await connect(server, timeout=patience_s, tls=access.tls, login=access.login)
                except ConnectError as error:
                    raise ConnectError(str(error).removeprefix(f"{server}: "), error.retryable) from None
                self._clients[server] = client
            return client

    async def _drop(self, server: str, client: Client) -> None:
        if self._clients.get(server) is client:
            del self._clients[server]
        await client.close()


def is_log(journal: str) -> bool:
    """Whether this is a log, which any broker can read."""
    return journal.startswith(LOG_PREFIX)


def _not_yet(request: ReadRequest, answer: EventsAnswered) -> str:
    """Return the reason why a replica cannot serve this request yet, or an empty text."""
    if not is_log(request.journal):
        return ""
    if answer.retryable:
        return answer.reason
    if not answer.reason and 0 <= request.position < request.until and answer.following <= request.position:
        return f"the log is there up to offset {answer.end} only"
    return ""


_lock: Final = threading.Lock()
_brokers: dict[tuple[int, AccessOptions], EventBrokers] = {}


def brokers_of(access: AccessOptions) -> EventBrokers:
    """The ones of this process. What a process inherited by a fork is not its own: the thread stayed behind."""
    with _lock:
        key = (os.getpid(), access)
        found = _brokers.get(key)
        if found is None:
            found = _brokers[key] = EventBrokers(access)
        return found


class JournalExtent(msgspec.Struct, frozen=True):
    """What a journal holds now."""

    journal: str
    first: int
    end: int
    latest: int
    """Before the gap at the end, while the broker leaves events out; the end otherwise."""


class EventPages(Protocol):
    """Answers questions for pages of journals: `EventBrokers`, or a test."""

    def ask(self, request: ReadRequest) -> EventsAnswered: ...

    def begin(self, request: ReadRequest) -> "Future[EventsAnswered]": ...


class JournalView:
    """A journal as a reader with these filters may see it."""

    def __init__(self, brokers: EventPages, filters: tuple[str, ...], where: str | None, journal: str = "") -> None:
        """`journal`: the journal or log to read unless a call names another one."""
        self._brokers = brokers
        self._journal = journal
        self._filters = filters
        self._where = where

    def partitions(self) -> int:
        """Return how many partitions this log has; 1 for a journal."""
        request = self._request(read_request(self._filters[0], self._where, "latest", LOOK_BYTES), self._journal)
        return max(1, self._brokers.ask(request).partitions)

    def held(self, journal: str = "", least: int = 0) -> JournalExtent:
        """Return the extent of this journal, or of the first that a server keeps. If the replica of a log ends before
        `least`, ask again, up to `LAG_TRIES` times."""
        journal = journal or self._journal
        for attempt in range(LAG_TRIES):
            if attempt:
                time.sleep(PAUSE_S)
            request = self._request(read_request(self._filters[0], self._where, "latest", LOOK_BYTES), journal)
            answer = self._sound(request)
            if answer.end >= least or not is_log(answer.journal):
                break
        return JournalExtent(answer.journal, answer.first, answer.end, answer.following)

    def position_of(self, place: Start, held: JournalExtent, lost: Callable[[str], None]) -> int:
        """Where in this journal. SourceError when the place is one of another. `lost` is told what was kept at that
        time and is not any more."""
        if isinstance(place, Offset):
            if place.journal != held.journal:
                raise SourceError(f"{place} is an offset of another journal than {held.journal}")
            return place.position
        if isinstance(place, datetime):
            request = self._request(read_request(self._filters[0], self._where, place, LOOK_BYTES), held.journal)
            answer = self._sound(request)
            for gap in answer.gaps:
                lost(gap_text(answer.journal, gap))
            if is_log(held.journal):
                return answer.begin
            return max(answer.first, answer.following - 1) if answer.life else answer.end
        return held.first if place == "earliest" else held.latest

    def life_at(self, journal: str, position: int) -> int:
        """Of the broker when it kept that event; 0 when it cannot be told."""
        return self._sound(self._at(journal, position, LOOK_BYTES)).life

    def check_gaps(
        self, journal: str, start: int, segments: tuple[tuple[int, int], ...], lost: Callable[[str], None]
    ) -> None:
        """Tell `lost` of every gap where one of these lives begins; `segments` as `lives` returns them."""
        for number, (life, end) in enumerate(segments):
            gaps = self._sound(self._at(journal, start, LOOK_BYTES)).gaps
            for gap in gaps:
                lost(gap_text(journal, gap))
            if number and not gaps:  # written by a version that marked no gaps
                lost(
                    f"the broker of {journal} began life {life} at position {start}: what was published between its "
                    "lives is not in its journal"
                )
            start = end

    def lives(self, journal: str, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """(life, where it ends) of the positions from `start` to `end - 1`, rising. Lives rise with positions, so only
        where two differ there is something to look for."""
        if start >= end:
            return ()
        found: list[tuple[int, int]] = []
        self._divide(journal, (start, self.life_at(journal, start)), (end - 1, self.life_at(journal, end - 1)), found)
        return tuple(found)

    def _divide(self, journal: str, low: tuple[int, int], high: tuple[int, int], found: list[tuple[int, int]]) -> None:
        if low[1] == high[1]:
            if found and found[-1][0] == high[1]:
                found.pop()
            found.append((high[1], high[0] + 1))
            return
        if high[0] - low[0] == 1:
            for position, life in (low, high):
                if found and found[-1][0] == life:
                    found.pop()
                found.append((life, position + 1))
            return
        middle = (low[0] + high[0]) // 2
        between = (middle, self.life_at(journal, middle))
        self._divide(journal, low, between, found)
        self._divide(journal, between, high, found)

    def first_match(self, journal: str, start: int, end: int) -> int | None:
        """The first position from `start` to `end - 1` that matches, or where events are missing, or that is gone,
        which readers will find out."""
        position = start
        while position < end:
            request = msgspec.structs.replace(self._at(journal, position, SCAN_BYTES), until=end)
            answer = self._brokers.ask(request)
            if answer.reason:
                return position
            found = [event.position for event in answer.events[:1]] + [gap.position for gap in answer.gaps[:1]]
            if found:
                return min(found)
            if answer.following <= position:
                return None
            position = answer.following
        return None

    def pages(self, wanted: JournalRange, lost: Callable[[str], None]) -> Iterator[tuple[EventRead, ...]]:
        """All events of a range that match. While one page is worked on, the next is on its way. `lost` is told what
        retention has taken and what was never kept, and may raise."""
        position = wanted.start
        coming = self._brokers.begin(self._page(wanted, position))
        while True:
            answer = coming.result()
            if answer.reason:
                position = self._behind_loss(wanted, position, answer, lost)
                if position >= wanted.end:
                    return
                coming = self._brokers.begin(self._page(wanted, position))
                continue
            if answer.following <= position:
                lost(
                    f"positions {position} to {wanted.end - 1} of {wanted.journal} are gone: "
                    f"the journal ends at {answer.end}, before what was read of it"
                )
                return
            for gap in answer.gaps:
                lost(gap_text(answer.journal, gap))
            position = answer.following
            if position < wanted.end:
                coming = self._brokers.begin(self._page(wanted, position))
            yield answer.events
            if position >= wanted.end:
                return

    def _behind_loss(
        self, wanted: JournalRange, position: int, answer: EventsAnswered, lost: Callable[[str], None]
    ) -> int:
        """A page was refused: because it is not kept any more, or for another reason."""
        held = self.held(wanted.journal)
        if held.first <= position <= held.end:
            raise SourceError(f"{wanted.journal}@{position} cannot be read: {answer.reason}")
        following = min(wanted.end, held.first) if position < held.first else wanted.end
        lost(gone(wanted.journal, position, following, held))
        return following

    def _page(self, wanted: JournalRange, position: int) -> ReadRequest:
        return msgspec.structs.replace(self._at(wanted.journal, position, PAGE_BYTES), until=wanted.end)

    def _at(self, journal: str, position: int, size: int) -> ReadRequest:
        return self._request(read_request(self._filters[0], self._where, Offset(journal, position), size), journal)

    def _request(self, request: ReadRequest, journal: str) -> ReadRequest:
        return msgspec.structs.replace(request, journal=journal, also=self._filters[1:], allow_gaps=True)

    def _sound(self, request: ReadRequest) -> EventsAnswered:
        answer = self._brokers.ask(request)
        if answer.reason:
            raise SourceError(f"{answer.journal} cannot be read: {answer.reason}")
        return answer


def gone(journal: str, start: int, end: int, held: JournalExtent) -> str:
    """What is missing, in one line."""
    return (
        f"positions {start} to {end - 1} of {journal} are not kept any more, and were not read; "
        f"there are {held.first} to {held.end - 1}"
    )


def must_not_lose(reason: str) -> None:
    """For queries with `failOnDataLoss`."""
    raise DataLossError(f"{reason} (failOnDataLoss=false reads on after them)")
