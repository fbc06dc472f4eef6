"""Listening sockets, and attempts to connect. Each attempt ends in a connection or in a reason why there is none."""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from resprout.core.contract import Disconnected
from resprout.core.errors import UsageError
from resprout.net.address import Address, is_refusal, reason_of

BACKLOG: Final = 1024
PORT_TRIES: Final = 16

_NOT_HERE: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""A machine without IPv6 still has names with IPv6 addresses; listening on the others is enough."""

MakeProtocol = Callable[[], asyncio.Protocol]
_End = tuple[int, tuple[Any, ...]]

CONNECT_SECONDS_MAX: Final = 10.0


class ListenError(UsageError, OSError):
    """The address cannot be listened on; the text says which and why."""

    def __init__(self, address: Address, reason: str, number: int = 0) -> None:
        OSError.__init__(self, number, reason)
        self.address = address

    def __str__(self) -> str:
        return f"cannot listen on {self.address}: {self.strerror}"


class ListeningPlace:
    """Sockets that listen. Whoever connects waits until somebody serves them: nobody is answered too early."""

    def __init__(self, address: Address, sockets: list[socket.socket]) -> None:
        self.address = address
        """With the port that was really taken."""
        self.sockets = sockets
        self._servers: list[asyncio.Server] = []

    async def serve(self, make: MakeProtocol) -> None:
        loop = asyncio.get_running_loop()
        for plug in self.sockets:
            self._servers.append(await loop.create_server(make, sock=plug, backlog=BACKLOG))

    def close(self) -> None:
        """From now on, connections are refused."""
        for server in self._servers:
            server.close()
        for plug in self.sockets:
            plug.close()


async def take_place(address: Address) -> ListeningPlace:
    """On every address of the host; port 0 takes a free port, the same on all of them. ListenError when it cannot."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        ends = list(dict.fromkeys((family, place) for family, _, _, _, place in found))
        sockets = _listen_on_all(ends, address.port)
    except (OSError, UnicodeError) as error:
        raise ListenError(address, reason_of(error), getattr(error, "errno", None) or 0) from None
    host, port = sockets[0].getsockname()[:2]
    return ListeningPlace(Address(address.host or host, port), sockets)


def _listen_on_all(ends: Sequence[_End], port: int) -> list[socket.socket]:
    """A port that was free on the first address may be taken on the next: then another is tried."""
    for tries in range(1, PORT_TRIES + 1):
        try:
            return _listen_on_each(ends, port)
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE or tries == PORT_TRIES:
                raise
    raise AssertionError("there is at least one try")


def _listen_on_each(ends: Sequence[_End], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, place in ends:
            taken = port or (sockets[0].getsockname()[1] if sockets else 0)
            try:
                sockets.append(_listen(family, (place[0], taken, *place[2:])))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = missing or error
        if missing is not None and not sockets:
            raise missing
    except OSError:
        for plug in sockets:
            plug.close()
        raise
    return sockets


def _listen(family: int, place: tuple[Any, ...]) -> socket.socket:
    plug = socket.socket(family, socket.SOCK_STREAM)
    try:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            plug.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        plug.setblocking(False)
        plug.bind(place)
        plug.listen(BACKLOG)
    except BaseException:
        plug.close()
        raise
    return plug


class Dials:
    """`where` tells where a peer listens, or why it cannot be reached; `make` makes the connection with it; `fail` is
    told of attempts that lead to none."""

    def __init__(
        self,
        where: Callable[[str], Address | str],
        make: Callable[[str], asyncio.Protocol],
        fail: Callable[[Disconnected], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._where = where
        self._make = make
        self._fail = fail
        self._tasks: set[asyncio.Task[None]] = set()

    def dial(self, peer: str) -> None:
        task = self._loop.create_task(self._dial(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel_all(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _dial(self, peer: str) -> None:
        place = self._where(peer)
        if isinstance(place, str):
            self._fail(Disconnected(0, peer, place))
            return
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await self._loop.create_connection(lambda: self._make(peer), place.host or "localhost", place.port)
        except (OSError, UnicodeError) as error:  # UnicodeError: a host that cannot be a name
            self._fail(Disconnected(0, peer, f"{place}: {reason_of(error)}", is_refusal(error)))
