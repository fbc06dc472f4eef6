"""The contract of an application: what a client's code does, as a pure machine that every driver can run.

Like a protocol, an application has no clock, no I/O and no randomness of its own. A driver makes one per client with
`AppMaker(scenario).make(name, life)`, calls `start` once when the client starts, and afterwards tells it what happened;
each call returns what the application wants, in order. Requests go to the client machine as bodies of `Request`, bodies
of `Answer` come back as `told`, each message of a `Deliver` as `delivered`.

An application is lost when its client crashes. A client that recovers gets a new one (`life` counts from 0), which
subscribes and works from the beginning, with other random choices.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from resprout.core.message import Message
from resprout.edge.requests import ClientNews, ClientRequest


class WakeAt(msgspec.Struct, frozen=True):
    """Call `woke` at this time. Each wish is kept, none replaces another; a time that has passed means at once."""

    at_us: int


class Applied(msgspec.Struct, frozen=True):
    """The service changed its state because of a delivery: a row of kind `applied` for the trace.

    The row has the identity, topic, keys, guarantee and position of the message, and `attributes`.
    """

    message: Message
    outcome: str
    """"ok" or "refused"."""
    balances: Mapping[str, int]
    """After it, of what it touched and this replica holds: `topic|key` to cents."""

    @property
    def attributes(self) -> dict[str, str]:
        return {"outcome": self.outcome} | {place: str(cents) for place, cents in self.balances.items()}


AppWish = ClientRequest | WakeAt | Applied


class App(Protocol):
    @property
    def done(self) -> bool:
        """It wants nothing more of its own accord: from now on it acts only on what it is told or given."""
        ...

    def start(self, now_us: int) -> Sequence[AppWish]: ...

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]: ...

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]: ...

    def woke(self, now_us: int) -> Sequence[AppWish]:
        """May come more often than asked for."""
        ...
