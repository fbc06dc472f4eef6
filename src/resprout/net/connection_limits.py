"""Limits on connections and sessions per address, per identity and per process.

Each client session has limits on its own data (`window_bytes`, `outbox_bytes_max`). So the limits on the number of
sessions (`BrokerLimits`) bound the memory that one identity, or all clients at one address, can use. Sessions outlive
their connections (`session_linger_us`), so sessions are counted rather than connections.

`Unidentified` holds incoming connections that have not identified themselves. If there are too many, the oldest one of
the address that has most is closed. So an address that floods the broker displaces only its own connections.

Every connection needs a file descriptor (`ulimit -n`): `raise_limit` and `room_for` check how many are available.
"""

import ipaddress
import resource
from collections import Counter
from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from resprout.core.errors import UsageError
from resprout.core.limits import ClientLimits
from resprout.edge.rights import Rights

COUNTED_MAX: Final = 65_536
"""Number of tracked clients above which clients without a session are removed."""

RESERVED: Final = 64
"""File descriptors reserved for other uses: the broker's own connections, files, the event loop."""
CONNECTIONS_MIN: Final = 16
"""Minimum number of connections with which a broker starts."""


class BrokerLimits(ClientLimits, frozen=True, kw_only=True):
    """Limits of one broker. Rules may override them for an identity, except `address_connections` and
    `reserved_sessions`."""

    address_connections: int = 2048
    """Maximum number of connections from one address, and of sessions started from it. Local connections are exempt."""
    identity_clients: int = 1024
    """Maximum number of sessions of one identity, including those without a connection."""
    reserved_sessions: int = 256
    """Part of `sessions_max` that is reserved for brokers and operators."""

    def of_identity(self, changes: Mapping[str, int]) -> "BrokerLimits":
        """Return the limits for an identity with the given overrides from the rules."""
        return msgspec.structs.replace(self, **changes) if changes else self


IDENTITY_LIMITS = (*ClientLimits.__struct_fields__, "identity_clients")
"""Names of the limits that rules may set for an identity."""

Standing = tuple[str, Rights | None]
"""Authenticated identity of a client, empty for none, and its rights; None without rules."""


class ConnectionCounts:
    """Number of connections by key, such as an address."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __getitem__(self, key: str) -> int:
        return self._counts.get(key, 0)

    def enter(self, key: str) -> None:
        self._counts[key] += 1

    def leave(self, key: str) -> None:
        self._counts[key] -= 1
        if self._counts[key] <= 0:
            del self._counts[key]


@runtime_checkable
class SessionDirectory(Protocol):
    """Machine that knows which clients have sessions, with or without a connection."""

    @property
    def session_count(self) -> int: ...

    def has_session(self, peer: str) -> bool: ...

    def lingers(self, peer: str) -> bool:
        """Return whether the client's session is without a connection and will expire."""


class SessionCounts:
    """Clients with sessions, by address or identity."""

    def __init__(self, sessions: SessionDirectory | None) -> None:
        self._sessions = sessions
        self._names: dict[str, dict[str, None]] = {}
        self._counted: dict[str, str] = {}
        """Key under which each client is counted, by client name."""
        self._standings: dict[str, Standing] = {}
        """Identity and rights with which each client started its session, by client name."""

    def has_room(self, key: str, name: str, most: int) -> bool:
        """Return whether a client may start a session. A client that already has one replaces it."""
        names = self._names.get(key, {})
        if name in names or len(names) < most:
            return True
        self._forget_gone(key)
        return len(self._names.get(key, {})) < most

    def enter(self, key: str, name: str, standing: Standing = ("", None)) -> None:
        before = self._counted.get(name)
        if before is not None:
            self._remove(before, name)  # re-insert as the most recent one
        if len(self._counted) >= COUNTED_MAX:
            for known in list(self._names):
                self._forget_gone(known)
        self._counted[name] = key
        self._standings[name] = standing
        self._names.setdefault(key, {})[name] = None

    def standing_of(self, name: str) -> Standing | None:
        """Return the identity and rights with which the client started its session; None if it has no session."""
        return self._standings.get(name) if self._has(name) else None

    def change_rights(self, name: str, rights: Rights) -> None:
        """Replace the rights of a client after a change of the rules."""
        if name in self._standings:
            self._standings[name] = (self._standings[name][0], rights)

    def _forget_gone(self, key: str) -> None:
        for name in [name for name in self._names.get(key, ()) if not self._has(name)]:
            self._remove(key, name)

    def _has(self, name: str) -> bool:
        return self._sessions is not None and self._sessions.has_session(name)

    def oldest_disconnected(self, key: str) -> str | None:
        """Return the oldest client under this key whose session has no connection; None if there is none."""
        if self._sessions is None:
            return None
        return next((name for name in self._names.get(key, ()) if self._sessions.lingers(name)), None)

    def oldest_disconnected_of_most(self) -> str | None:
        """Return such a client of the key with the most sessions; None if there is none."""
        for key in list(self._names):
            self._forget_gone(key)
        keys = sorted(self._names, key=lambda key: -len(self._names[key]))
        return next(filter(None, map(self.oldest_disconnected, keys)), None)

    def _remove(self, key: str, name: str) -> None:
        del self._counted[name], self._standings[name]
        names = self._names[key]
        del names[name]
        if not names:
            del self._names[key]


class UnidentifiedConnection(Protocol):
    """Incoming connection that has not identified itself."""

    number: int
    address: str


S = TypeVar("S", bound=UnidentifiedConnection)


class Unidentified(Generic[S]):
    def __init__(self, places: int) -> None:
        self.places = places
        self._count = 0
        self._waiting: dict[str, dict[int, S]] = {}
        """Connections by address, oldest first."""

    def __len__(self) -> int:
        return self._count

    def enter(self, connection: S) -> None:
        waiting = self._waiting.setdefault(source_of(connection.address), {})
        self._count += connection.number not in waiting
        waiting[connection.number] = connection

    def leave(self, connection: S) -> None:
        """Remove a connection that has identified itself or closed."""
        source = source_of(connection.address)
        waiting = self._waiting.get(source, {})
        if waiting.pop(connection.number, None) is not None:
            self._count -= 1
            if not waiting:
                del self._waiting[source]

    def next_to_close(self) -> S | None:
        """Return the connection to close if there are too many; None if there are none."""
        if not self._waiting:
            return None
        return next(iter(max(self._waiting.values(), key=len).values()))


def is_local(source: str) -> bool:
    """Return whether the source is a loopback address."""
    return source in ("", "::/64") or source.startswith("127.")


def source_of(address: str) -> str:
    """Return the key under which an address is counted: for IPv6 the /64 network."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 6 and known.ipv4_mapped is None:
        return str(ipaddress.ip_network((known, 64), strict=False))
    return str(known)


def raise_limit(connections: int) -> None:
    """Raise the soft limit of file descriptors as far as needed and allowed. For processes that only run a broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))


def room_for(connections: int) -> tuple[int, str]:
    """Return how many of these connections the file descriptor limit permits, and a warning if fewer. Raises UsageError
    if the limit is too low to run a broker."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= connections + RESERVED:
        return connections, ""
    room = soft - RESERVED
    if room < CONNECTIONS_MIN:
        raise UsageError(
            f"this process may have {soft} files open at once, and a broker needs {RESERVED + CONNECTIONS_MIN}; raise"
            " `ulimit -n`"
        )
    return room, (
        f"this process may have {soft} files open at once: it takes {room} connections instead of {connections}; raise"
        " `ulimit -n`, or lower sessions_max and greetings_max"
    )
