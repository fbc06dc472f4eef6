"""Where others reach a broker that listens on some address."""

import asyncio
import socket
from typing import Final

from resprout.core.errors import UsageError
from resprout.net.address import Address

_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


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
