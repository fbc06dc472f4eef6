"""How many connections one place, or one identity, has: nobody takes the room of all the others.

What a client may have under way is bounded by its session (`window_bytes`, `outbox_bytes_max`); so these numbers bound
what an identity, or whoever is behind an address, can make a broker keep.
"""

from collections import Counter

import msgspec

from resprout.core.errors import UsageError


class CrowdLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one broker; rules may say something else about an identity."""

    address_connections: int = 2048
    """Connections from one address. Those of this machine are not counted: whoever is on it has other means."""
    identity_clients: int = 1024
    """Clients that one identity has connected at a time."""
    client_subscriptions: int = 100_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise UsageError(f"limit {name} must be 1 or more, not {getattr(self, name)}")


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
