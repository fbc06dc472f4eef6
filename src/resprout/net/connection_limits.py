"""How many connections and sessions one address, or one identity, may have, and how many this process may have.

A client's session bounds what it may have under way (`window_bytes`, `outbox_bytes_max`); so the numbers in
`CrowdLimits` bound what an identity, or all clients behind an address, can make a broker keep. A session outlives its
connection for a while (`session_linger_us`), so sessions are counted, and not connections.

`Unidentified` are connections that others opened and that have not said who they are. When there are too many, the
oldest one of the address that has most of them is closed. So an address that opens connections and says nothing only
displaces its own: the next client is let in, and one that comes from elsewhere keeps its place.

Every connection is an open file (`ulimit -n`): `raise_limit` and `room_for` ask the system how many there may be.
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
"""Clients that may be counted; when there are more, those that are gone are looked for."""

RESERVED: Final = 64
"""Files that a broker needs beside the connections that others open: its own connections, records, the loop."""
CONNECTIONS_MIN: Final = 16
"""With fewer, no broker is of use to anybody."""


class CrowdLimits(ClientLimits, frozen=True, kw_only=True):
    """Of one broker; rules may say something else about an identity, except of the first and the last."""

    address_connections: int = 2048
    """Connections from one address, and sessions that were begun from there. Those of this machine are not counted:
    whoever is on it has other means."""
    identity_clients: int = 1024
    """Sessions of clients that one identity has at a time, with those that have no connection at the moment."""
    reserved_sessions: int = 256
    """Of `sessions_max`, what only brokers and operators may use."""

    def of_identity(self, changes: Mapping[str, int]) -> "CrowdLimits":
        """With what the rules say about one identity."""
        return msgspec.structs.replace(self, **changes) if changes else self


IDENTITY_LIMITS = (*ClientLimits.__struct_fields__, "identity_clients")
"""Limits that rules may set for an identity."""

Standing = tuple[str, Rights | None]
"""The identity that a client has proven, empty for none, and what it may do; None where nobody asks."""


class Crowd:
    """By whatever connections are told apart by."""

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
class KeepsSessions(Protocol):
    """A machine that can be asked who has a session, with or without a connection."""

    @property
    def session_count(self) -> int: ...

    def has_session(self, peer: str) -> bool: ...

    def lingers(self, peer: str) -> bool:
        """Whether its session waits for a connection, and would end after a while without one."""


class SessionCrowd:
    """Which clients have sessions, by address or identity."""

    def __init__(self, sessions: KeepsSessions | None) -> None:
        self._sessions = sessions
        self._names: dict[str, dict[str, None]] = {}
        self._counted: dict[str, str] = {}
        """By client: where it is counted."""
        self._standings: dict[str, Standing] = {}
        """By client: for whom its session was begun."""

    def has_room(self, key: str, name: str, most: int) -> bool:
        """Whether a client may begin a session. One that comes again comes in place of itself."""
        names = self._names.get(key, {})
        if name in names or len(names) < most:
            return True
        self._forget_gone(key)
        return len(self._names.get(key, {})) < most

    def enter(self, key: str, name: str, standing: Standing = ("", None)) -> None:
        before = self._counted.get(name)
        if before is not None:
            self._remove(before, name)  # the last to come is the last in its line
        if len(self._counted) >= COUNTED_MAX:
            for known in list(self._names):
                self._forget_gone(known)
        self._counted[name] = key
        self._standings[name] = standing
        self._names.setdefault(key, {})[name] = None

    def standing_of(self, name: str) -> Standing | None:
        """For whom the session of a client was begun, with which rights; None when it has none."""
        return self._standings.get(name) if self._has(name) else None

    def change_rights(self, name: str, rights: Rights) -> None:
        """New rules let a client do more than before."""
        if name in self._standings:
            self._standings[name] = (self._standings[name][0], rights)

    def _forget_gone(self, key: str) -> None:
        for name in [name for name in self._names.get(key, ()) if not self._has(name)]:
            self._remove(key, name)

    def _has(self, name: str) -> bool:
        return self._sessions is not None and self._sessions.has_session(name)

    def first_away(self, key: str) -> str | None:
        """Return a client of an identity or address that has a session and no connection: the first that came."""
        if self._sessions is None:
            return None
        return next((name for name in self._names.get(key, ()) if self._sessions.lingers(name)), None)

    def first_away_of_most(self) -> str | None:
        """Return such a client of whoever has the most sessions."""
        for key in list(self._names):
            self._forget_gone(key)
        keys = sorted(self._names, key=lambda key: -len(self._names[key]))
        return next(filter(None, map(self.first_away, keys)), None)

    def _remove(self, key: str, name: str) -> None:
        del self._counted[name], self._standings[name]
        names = self._names[key]
        del names[name]
        if not names:
            del self._names[key]


class Stranger(Protocol):
    """A connection that somebody has opened."""

    number: int
    address: str


S = TypeVar("S", bound=Stranger)


class Unidentified(Generic[S]):
    def __init__(self, places: int) -> None:
        self.places = places
        self._count = 0
        self._waiting: dict[str, dict[int, S]] = {}
        """By source, the oldest first."""

    def __len__(self) -> int:
        return self._count

    def enter(self, connection: S) -> None:
        waiting = self._waiting.setdefault(source_of(connection.address), {})
        self._count += connection.number not in waiting
        waiting[connection.number] = connection

    def leave(self, connection: S) -> None:
        """It has said who it is, or is gone."""
        source = source_of(connection.address)
        waiting = self._waiting.get(source, {})
        if waiting.pop(connection.number, None) is not None:
            self._count -= 1
            if not waiting:
                del self._waiting[source]

    def one_too_many(self) -> S | None:
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


def raise_limit(connections: int) -> None:
    """As far as this process may, and no further than needed. For processes that are nothing but a broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))


def room_for(connections: int) -> tuple[int, str]:
    """So many of these connections can be had, and a line of warning when that is not all of them. UsageError when it
    is next to none."""
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
