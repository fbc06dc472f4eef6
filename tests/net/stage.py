"""Real brokers in the event loop of a test, a bare connection to one, and a proxy that breaks connections."""

import asyncio
import contextlib
import random
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import uvloop

from resprout.core.contract import Note
from resprout.links.frames import PROTOCOL_VERSION, Data, Hello, SessionWelcome
from resprout.links.options import LinkOptions, LinkStatus
from resprout.net.address import Address
from resprout.net.broker import RunningBroker, serve
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.door import Door
from resprout.net.host import Host
from resprout.net.sessions import make_codec
from resprout.stacks.stack import RosterEntry, Stack, find_stack
from resprout.wire.codec import FrameReader, FrameWriter
from tests.patience import PATIENCE_S

T = TypeVar("T")
Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

STACK = find_stack("resprout")
CODEC = make_codec(STACK.messages)
LOOPBACK = Address("127.0.0.1", 0)

QUICK = LinkOptions(reconnect_us_min=1_000, reconnect_us_max=20_000)
"""Tests that break many connections do not wait long for the next."""


def run(work: Coroutine[Any, Any, T], seconds: float = PATIENCE_S, fast_loop: bool = False) -> T:
    """The result of a whole test, or TimeoutError. Brokers in processes of their own run on the fast loop."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if fast_loop else None) as runner:
        return runner.run(bounded())


class Running:
    """A broker."""

    def __init__(self, broker: RunningBroker, address: Address, notes: list[Note]) -> None:
        self.broker = broker
        self.address = address
        self.notes = notes

    @property
    def host(self) -> Host:
        """Of its current life."""
        return self.broker.host

    def __str__(self) -> str:
        return str(self.address)

    @property
    def machine(self) -> Any:
        return self.broker.books.machine

    @property
    def statuses(self) -> list[LinkStatus]:
        return list(self.host.machine.sessions())  # type: ignore[attr-defined]

    @property
    def sessions(self) -> list[str]:
        return [status.peer for status in self.statuses]


@contextlib.asynccontextmanager
async def broker(
    name: str = "b0",
    *,
    incarnation: int = 1,
    listen: Address = LOOPBACK,
    parent: tuple[str, Address] | None = None,
    options: Mapping[str, Any] | None = None,
    links: LinkOptions = QUICK,
    door: Door | None = None,
    stack: Stack[Any] = STACK,
    data: Path | None = None,
    keep: tuple[str, ...] = (),
    roster: tuple[RosterEntry, ...] = (),
) -> AsyncIterator[Running]:
    notes: list[Note] = []
    above, peers = (parent[0], dict([parent])) if parent is not None else (None, {})
    spec = BrokerToRun(name, incarnation, listen, above, peers, data=data, keep=keep, roster=roster)
    running, address = await serve(spec, stack, stack.parse_options(options or {}), links, notes.append, door=door)
    try:
        yield Running(running, address, notes)
    finally:
        await running.close()


class Bare:
    """A connection without a client behind it: says whatever it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameReader(CODEC)
        self._encode = FrameWriter(CODEC).write
        self._here: list[Any] = []

    def say(self, *frames: Any) -> None:
        for frame in frames:
            self.writer.write(self._encode(frame))

    def stop_reading(self) -> None:
        """What comes stays where it is, until the system of the sender has no room for it either."""
        cast(asyncio.ReadTransport, self.writer.transport).pause_reading()

    async def hear(self) -> Any:
        """The next frame; EOFError when the broker has closed the connection."""
        while not self._here:
            chunk = await self.reader.read(65_536)
            if not chunk:
                raise EOFError
            self._here += self._frames.feed(chunk)
        return self._here.pop(0)

    async def ended(self) -> None:
        """Reads and forgets until the broker closes the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass

    async def greet(self, name: str, incarnation: int = 1, epoch: int = 1, grant: int = 1 << 40) -> SessionWelcome:
        """Opens a session; the broker's first message is left unread."""
        self.say(hello(name, incarnation, epoch, grant))
        welcome = await self.hear()
        assert isinstance(welcome, SessionWelcome), welcome
        return welcome

    def say_messages(self, first: int, *messages: Any, grant: int = 1 << 40, received: int = 0) -> None:
        self.say(Data(first, received, grant, messages))


def hello(
    name: str,
    incarnation: int = 1,
    epoch: int = 1,
    grant: int = 1 << 40,
    version: int = PROTOCOL_VERSION,
    role: str = "client",
) -> Hello:
    return Hello(version, name, role, incarnation, "b0", None, epoch, 0, grant)


@contextlib.asynccontextmanager
async def bare(address: Address, tls: ssl.SSLContext | None = None) -> AsyncIterator[Bare]:
    """`tls`: the one of the standard library, which knows nothing of ours."""
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    try:
        yield Bare(reader, writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError, EOFError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def somebody(behave: Behave) -> AsyncIterator[str]:
    """Something listens, and does what it is told with each connection."""

    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, EOFError, asyncio.CancelledError):
            await behave(reader, writer)
        writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


class Proxy:
    """Stands between, passes bytes on in small pieces, and resets connections when told to."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._pairs: dict[int, tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._count = 0
        self.resets = 0
        self.attempts = 0
        """How often somebody has tried to connect."""
        self.passed = bytearray()
        """What has come by lately."""
        self.address = target
        self.refusing = False
        """Connections are reset as soon as they come."""
        self.swallowing = False
        """Bytes vanish on the way, and nobody is told."""
        self.passing = asyncio.Event()
        """While it is cleared, bytes wait here in both directions."""
        self.passing.set()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = Address(*self._server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.reset_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        return len(self._pairs)

    def reset_one(self, rng: random.Random) -> bool:
        """One connection, drawn by lot, as if its path were gone; False when there is none."""
        if not self._pairs:
            return False
        self._reset(rng.choice(list(self._pairs)))
        return True

    def reset_all(self) -> None:
        for number in list(self._pairs):
            self._reset(number)

    def _reset(self, number: int) -> None:
        for writer in self._pairs.pop(number):
            reset(writer)
        self.resets += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attempts += 1
        if self.refusing:
            reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(self._target.host, self._target.port)
        except OSError:
            reset(writer)
            return
        self._count += 1
        number = self._count
        self._pairs[number] = (writer, far_writer)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pass_on(number, source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, number: int, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(1500):
                await self.passing.wait()
                if not self.swallowing:
                    self.passed[: -(1 << 16)] = b""
                    self.passed += chunk
                    sink.write(chunk)
                    await sink.drain()
        except OSError:
            pass
        if (pair := self._pairs.pop(number, None)) is not None:
            for writer in pair:
                writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection without a farewell: what was under way in either direction is lost."""
    plug: socket.socket | None = writer.get_extra_info("socket")
    if plug is not None and plug.fileno() >= 0:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def let_pass(seconds: float) -> None:
    """Let time pass, in many turns of the loop: what was ready before it ended has happened."""
    for _ in range(20):
        await asyncio.sleep(seconds / 20)


async def has_rested(seconds: float, stall: float) -> bool:
    """Let time pass; False when the machine kept the loop waiting for longer than `stall` meanwhile: then it proves
    nothing that somebody was heard too late."""
    loop = asyncio.get_running_loop()
    looked = loop.time()
    end = looked + seconds
    while looked < end:
        await asyncio.sleep(0.01)
        before, looked = looked, loop.time()
        if looked - before > stall:
            return False
    return True


async def until(condition: Any, seconds: float = PATIENCE_S) -> None:
    """Waits for something that nobody announces."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
