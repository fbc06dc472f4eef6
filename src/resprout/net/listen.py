"""Takes a place to listen."""

import asyncio
from collections.abc import Callable

from resprout.core.errors import UsageError
from resprout.net.address import Address, reason_of

BACKLOG = 1024
PORT_TRIES = 16

MakeProtocol = Callable[[], asyncio.Protocol]


class ListenError(UsageError, OSError):
    """The address cannot be listened on; the text says which and why."""

    def __init__(self, address: Address, reason: str, errno: int = 0) -> None:
        OSError.__init__(self, errno, reason)
        self.address = address

    def __str__(self) -> str:
        return f"cannot listen on {self.address}: {self.strerror}"


async def open_server(loop: asyncio.AbstractEventLoop, make: MakeProtocol, address: Address) -> asyncio.Server:
    """Listens on every address of the host; port 0 takes a free port, the same on all of them."""
    try:
        server = await _open(loop, make, address.host, address.port)
        for _ in range(PORT_TRIES):
            ports = {socket.getsockname()[1] for socket in server.sockets}
            if len(ports) == 1:
                return server
            server.close()
            server = await _open_again(loop, make, address.host, min(ports))
    except (OSError, UnicodeError) as error:
        raise ListenError(address, reason_of(error), getattr(error, "errno", None) or 0) from None
    server.close()
    raise ListenError(address, "no port is free on all addresses of the host")


async def _open(loop: asyncio.AbstractEventLoop, make: MakeProtocol, host: str, port: int) -> asyncio.Server:
    return await loop.create_server(make, host or None, port, backlog=BACKLOG, reuse_address=True)


async def _open_again(loop: asyncio.AbstractEventLoop, make: MakeProtocol, host: str, port: int) -> asyncio.Server:
    """On a port that one of the host's addresses had free; on any other when it is not free on the rest."""
    try:
        return await _open(loop, make, host, port)
    except OSError:
        return await _open(loop, make, host, 0)
