"""Runs one machine in an event loop: executes its effects, brings it events, and does nothing else."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from resprout.core import limits
from resprout.core.contract import (
    Answer,
    Arrived,
    CancelTimer,
    Connect,
    Connected,
    Deliver,
    Disconnect,
    Disconnected,
    Effect,
    Event,
    Machine,
    Note,
    SetTimer,
    Timer,
    TimerFired,
    Transmit,
)  # fmt: skip
from resprout.links.frames import Goodbye
from resprout.links.handshake import shorten
from resprout.net.address import Address, reason_of
from resprout.net.connection import GREETING_SECONDS_MAX, Connection
from resprout.net.frames import Here, Who
from resprout.net.listen import open_server
from resprout.wire.codec import Codec

CONNECTIONS_MAX = 10_000
CONNECT_SECONDS_MAX = 10.0

Upward = Deliver | Answer | Note


def now_us() -> int:
    """One clock for every process of a machine, so that their traces can be merged."""
    return time.monotonic_ns() // 1_000


class Host:
    """One node. `find` tells where a peer listens; `upward` takes what the machine has for those above."""

    def __init__(
        self,
        machine: Machine,
        codec: Codec,
        here: Here,
        find: Callable[[str], Address | None],
        upward: Callable[[Upward], None],
        *,
        delays_s: dict[str, float] | None = None,
        connections_max: int = CONNECTIONS_MAX,
        greeting_s_max: float = GREETING_SECONDS_MAX,
        latest_incarnation: Callable[[str], int] = lambda name: 0,
    ) -> None:
        self.machine = machine
        self.codec = codec
        self.here = here
        self.loop = asyncio.get_running_loop()
        self._find = find
        self._delays_s = delays_s or {}
        self.greeting_s_max = greeting_s_max
        self.connections_max = connections_max
        self._latest_incarnation = latest_incarnation
        self._connections: dict[int, Connection] = {}
        self._numbers = 0
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._dials: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._closing = False
        self._do: dict[type, Callable[[Any], None]] = {
            Transmit: self._transmit,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Connect: self._connect,
            Disconnect: self._disconnect,
        }
        self.tell(upward)

    def tell(self, upward: Callable[[Upward], None]) -> None:
        """From now on, this hears what the machine has for those above."""
        self._do[Deliver] = self._do[Answer] = self._do[Note] = upward

    # -- for those above -----------------------------------------------------------------------------------------------

    async def listen(self, address: Address) -> Address:
        """Accept connections; returns the address with the port that was really taken. ListenError when it cannot."""
        self._server = await open_server(self.loop, self._accept, address)
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(address.host or host, port)

    def start(self) -> None:
        self.perform(self.machine.start(now_us()))

    def handle(self, event: Event) -> None:
        self.perform(self.machine.step(event, now_us()))

    def perform(self, effects: Sequence[Effect]) -> None:
        do = self._do
        timers: list[SetTimer | CancelTimer] | None = None
        for effect in effects:
            if isinstance(effect, SetTimer | CancelTimer):  # nobody waits for these; what is sent goes first
                if timers is None:
                    timers = []
                timers.append(effect)
            else:
                do[type(effect)](effect)
        if timers is not None:
            for effect in timers:
                do[type(effect)](effect)

    async def close(self, farewell: str | None = None) -> None:
        """Stop listening and close every connection after what was sent has left.

        With a farewell, peers are told that their sessions are over, and why; without one they try to reconnect.
        """
        if farewell is not None:
            for connection in list(self._connections.values()):
                self.refuse(connection, farewell)
        self._closing = True
        if self._server is not None:
            self._server.close()
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        for task in list(self._dials):
            task.cancel()
        for connection in list(self._connections.values()):
            connection.close("closing")
        try:
            for _ in range(100):  # a peer that does not read must not keep this process alive
                if not self._connections:
                    break
                await asyncio.sleep(0.01)
        finally:
            for connection in list(self._connections.values()):
                connection.abort("closing")
        if self._server is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._server.wait_closed(), 1.0)

    @property
    def connections(self) -> int:
        return len(self._connections)

    # -- for connections -----------------------------------------------------------------------------------------------

    def delay_s(self, peer: str | None) -> float:
        return self._delays_s.get(peer, 0.0) if peer is not None else 0.0

    def connected(self, connection: Connection) -> None:
        if self._closing:
            connection.abort("closing")
            return
        if connection.peer is None and len(self._connections) >= self.connections_max:
            self.refuse(connection, f"{self.here.name} has {self.connections_max} connections and takes no more")
            return
        self._connections[connection.number] = connection
        self.handle(Connected(connection.number, connection.peer))

    def arrived(self, number: int, frame: Any) -> None:
        if number in self._connections:
            self.perform(self.machine.step(Arrived(number, frame), now_us()))

    def refuse(self, connection: Connection, reason: str) -> None:
        """The peer broke the rules of the connection: tell it, cut it off, and let its session, if any, wait."""
        connection.send(Goodbye(shorten(reason, limits.REASON_BYTES)))
        connection.close(reason)

    def answer(self, connection: Connection, asked: Who) -> None:
        """To somebody who only wants to know who listens here."""
        here = self.here
        connection.send(Here(here.name, here.role, here.incarnation, self._latest_incarnation(asked.name)))
        connection.close("answered")

    def lost(self, connection: Connection, reason: str) -> None:
        if self._connections.pop(connection.number, None) is not None and not self._closing:
            self.handle(Disconnected(connection.number, connection.peer, reason))

    # -- effects -------------------------------------------------------------------------------------------------------

    def _transmit(self, effect: Transmit) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.send(effect.frame)

    def _disconnect(self, effect: Disconnect) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.close(effect.reason)

    def _connect(self, effect: Connect) -> None:
        if self._closing:
            return
        task = self.loop.create_task(self._dial(effect.peer))
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    async def _dial(self, peer: str) -> None:
        address = self._find(peer)
        if address is None:
            self.handle(Disconnected(0, peer, f"nobody knows where {peer} listens"))
            return
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await self.loop.create_connection(lambda: self._new(peer), address.host or "localhost", address.port)
        except (OSError, UnicodeError) as error:  # UnicodeError: a host that cannot be a name
            if not self._closing:
                self.handle(Disconnected(0, peer, f"{address}: {reason_of(error)}"))

    def _accept(self) -> Connection:
        return self._new(None)

    def _new(self, peer: str | None) -> Connection:
        self._numbers += 1
        return Connection(self, self._numbers, peer)

    def _set_timer(self, effect: SetTimer) -> None:
        timer = effect.timer
        if (old := self._timers.pop(timer, None)) is not None:
            old.cancel()
        if self._closing:
            return
        delay_s = max(0, effect.at_us - now_us()) / 1e6
        self._timers[timer] = self.loop.call_later(delay_s, self._fire, timer)

    def _cancel_timer(self, effect: CancelTimer) -> None:
        if (handle := self._timers.pop(effect.timer, None)) is not None:
            handle.cancel()

    def _fire(self, timer: Timer) -> None:
        self._timers.pop(timer, None)
        self.handle(TimerFired(timer))
