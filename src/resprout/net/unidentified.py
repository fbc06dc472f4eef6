"""Connections that others opened and that have not said who they are: so many, and no address has more than its share.

When there are too many, the oldest one of the address that has most of them goes. So whoever opens connections and says
nothing is in the way of itself: the next client to come is let in, and one that comes from elsewhere keeps its place.
"""

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resprout.net.connection import TcpConnection


class Unidentified:
    def __init__(self, places: int) -> None:
        self.places = places
        self._count = 0
        self._waiting: dict[str, dict[int, TcpConnection]] = {}
        """By source, the oldest first."""

    def __len__(self) -> int:
        return self._count

    def enter(self, connection: "TcpConnection") -> None:
        waiting = self._waiting.setdefault(source_of(connection.address), {})
        self._count += connection.number not in waiting
        waiting[connection.number] = connection

    def leave(self, connection: "TcpConnection") -> None:
        """It has said who it is, or is gone."""
        source = source_of(connection.address)
        waiting = self._waiting.get(source, {})
        if waiting.pop(connection.number, None) is not None:
            self._count -= 1
            if not waiting:
                del self._waiting[source]

    def one_too_many(self) -> "TcpConnection | None":
        """Who is to go when somebody has to; None when nobody waits."""
        if not self._waiting:
            return None
        return next(iter(max(self._waiting.values(), key=len).values()))


def is_local(source: str) -> bool:
    """Of this machine."""
    return source in ("", "::/64") or source.startswith("127.")


def source_of(address: str) -> str:
    """Whom an address belongs to: of IPv6 everybody has 64 bits for themselves."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 6 and known.ipv4_mapped is None:
        return str(ipaddress.ip_network((known, 64), strict=False))
    return str(known)
