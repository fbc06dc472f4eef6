"""Addresses of nodes, `HOST:PORT` with IPv6 hosts in brackets, and sockets that listen at them or connect to them.

`AddressBook` knows by name where peers listen: what the node was told at its start, and what it has learned since.
`address_to_tell` returns the address at which others reach a broker that listens on some address. `take_place` listens.
`Dials` connects; each attempt ends in a connection or in a reason why there is none.
"""

import asyncio
import errno
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from resprout.core.contract import Disconnected
from resprout.core.errors import UsageError
from resprout.core.limits import ADDRESS_BYTES, check_name

DEFAULT_PORT = 7450

NAMES_MAX: Final = 100_000
"""A host has at most 253."""

_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")

BACKLOG: Final = 1024
PORT_TRIES: Final = 16

_NOT_HERE: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""A machine without IPv6 still has names with IPv6 addresses; listening on the others is enough."""

MakeProtocol = Callable[[], asyncio.Protocol]
_End = tuple[int, tuple[Any, ...]]

CONNECT_SECONDS_MAX: Final = 10.0


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`localhost:7450`, `[::1]:7450`, `:0` (every interface, any port), or a host alone with the default port."""
    if len(text.encode(errors="replace")) > ADDRESS_BYTES:
        raise UsageError(f"an address of {len(text)} letters is refused: {ADDRESS_BYTES} bytes are the most")
    host, port = _divide(text)
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"address {text!r}: the port must be a number from 0 to 65535")
    if any(letter.isspace() for letter in host):
        raise UsageError(f"address {text!r}: the host holds white space")
    return Address(host, int(port))


def is_loopback(address: Address) -> bool:
    """Return whether only this machine can reach it. A host name that does not resolve counts as one."""
    if not address.host:
        return False
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True
    return all(ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback for *_, place in found)


def reason_of(error: OSError | UnicodeError) -> str:
    """Why a place cannot be reached or taken: the system's own words, without what asyncio puts around them."""
    if isinstance(error, UnicodeError):
        return "the host is not a name"
    if isinstance(error, TimeoutError) and not error.args:
        return "no answer in time"
    if error.errno is None and (first := re.search(r"\[Errno (\d+)\]", str(error))):  # several addresses were tried
        return os.strerror(int(first[1])).lower()
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (error.strerror or str(error)).lower()


def is_refusal(error: OSError | UnicodeError) -> bool:
    """Return whether the host refused the connection because no process listens, on each address that it has."""
    if not isinstance(error, OSError):
        return False
    if error.errno is not None:
        return error.errno == errno.ECONNREFUSED
    numbers = re.findall(r"\[Errno (\d+)\]", str(error))  # several addresses were tried
    return bool(numbers) and all(int(number) == errno.ECONNREFUSED for number in numbers)


def _divide(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UsageError(f"address {text!r}: write an IPv6 address as [::1]:{DEFAULT_PORT}")
        return host, rest[1:] or str(DEFAULT_PORT)
    if text.count(":") > 1:
        raise UsageError(f"address {text!r}: write an IPv6 address as [::1]:{DEFAULT_PORT}")
    host, _, port = text.partition(":")
    if not host and not port:
        raise UsageError(f"address {text!r}: write it as HOST:PORT")
    return host, port or str(DEFAULT_PORT)


class AddressBook:
    """Outlives a broker's lives: the next one knows whom the last one knew."""

    def __init__(self, known: Mapping[str, Address] | None = None, names_max: int = NAMES_MAX) -> None:
        self._places: dict[str, Address] = dict(known or {})
        self._names_max = names_max

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def find(self, name: str) -> Address | None:
        return self._places.get(name)

    def locate(self, name: str, text: str) -> None:
        """A later address replaces an earlier one. UsageError when it is none, or when the book is full."""
        check_name(name)
        address = parse_address(text)
        if not address.host or not address.port:
            raise UsageError(f"address {text!r}: where {name} listens takes a host and a port")
        if name not in self._places and len(self._places) >= self._names_max:
            raise UsageError(f"{self._names_max} addresses are known; that of {name} is not taken")
        self._places[name] = address


async def address_to_tell(listens: Address, advertise: Address | None) -> Address:
    """What was asked for; otherwise where it listens. On every interface that is nothing one can connect to: then the
    address of this machine's name. UsageError when its name has none."""
    if advertise is not None:
        return advertise
    if listens.host not in _EVERY_INTERFACE:
        return listens
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(socket.gethostname(), listens.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(
            f"listening on every interface: say with --advertise HOST:{listens.port} where others reach this broker"
        ) from None
    return Address(str(found[0][4][0]), listens.port)


class ListenError(UsageError, OSError):
    """The address cannot be listened on; the text says which and why."""

    def __init__(self, address: Address, reason: str, number: int = 0) -> None:
        OSError.__init__(self, number, reason)
        self.address = address

    def __str__(self) -> str:
        return f"cannot listen on {self.address}: {self.strerror}"


class ListeningPlace:
    """Sockets that listen. Connections wait, unanswered, until a server takes them."""

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
