"""Connections to brokers that keep events, one for each broker and process, whoever reads in it.

A Python worker of Spark serves many tasks, one after the other, and nobody tells it when the query is over. So a
connection is made when it is first needed, stays for as long as the process, and is made anew when it broke. It belongs
to an event loop in a thread of its own: a session that nobody listens to would be taken for dead.

A journal is kept by one broker. A client whose broker is gone is served by another one, which keeps other events or
none; whoever asks for a journal is answered from that journal, or not at all.
"""

import asyncio
import os
import threading
import time
from concurrent.futures import Future
from typing import Final

from resprout.client.blocking import Background
from resprout.client.client import Client
from resprout.client.connect import connect
from resprout.client.errors import ClientError, ConnectError
from resprout.edge.requests import EventsAnswered, ReadRequest
from resprout.spark.options import AccessOptions, SourceError

PAUSE_S: Final = 0.5
"""Between two attempts."""
CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""A broker that has not answered by then is asked again, over a new connection."""


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
        """Where the journal was last, and then everywhere: a broker may have moved."""
        home = self._homes.get(journal)
        return sorted(self._access.servers, key=lambda server: server != home)

    async def _ask_at(self, server: str, request: ReadRequest) -> EventsAnswered:
        """ClientError or TimeoutError when it did not answer; the next attempt begins with a new connection."""
        client = await self._client(server)
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await client.read_events(request)
        except (ClientError, TimeoutError):
            await self._drop(server, client)
            raise
        if not answer.journal:  # lost, or served by a broker that keeps nothing
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
                    raise ConnectError(str(error).removeprefix(f"{server}: "), error.hopeless) from None
                self._clients[server] = client
            return client

    async def _drop(self, server: str, client: Client) -> None:
        if self._clients.get(server) is client:
            del self._clients[server]
        await client.close()


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
