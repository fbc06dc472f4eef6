"""What two link layers say to each other on a connection.

The opener says `Hello`, the other side `Welcome` (or `Goodbye`), then both send `Data` until either says `Goodbye` or
the connection breaks. A session outlives its connections: `epoch` names it, and `received` tells from where to resume.
"""

from typing import Generic, TypeVar

import msgspec

M = TypeVar("M")

PROTOCOL_VERSION = 1


class Hello(msgspec.Struct, frozen=True, tag=1, array_like=True):
    """First frame of the side that opened the connection."""

    version: int
    name: str
    role: str
    incarnation: int
    peer: str
    """Whom the opener believes to reach: a wrong address is noticed here."""
    peer_incarnation: int | None
    """The life of the peer that the session was begun with; None while no `Welcome` for it has come. Without it, an
    opener that missed the `Welcome` of a restarted peer could not be told from one that has seen it."""
    epoch: int
    """The session to resume or to begin; the opener numbers them within its incarnation."""
    received: int
    """How many messages of the peer in this session have been taken."""
    grant: int
    """Bytes that the peer may send in all, counted from the beginning of the session."""


class Welcome(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """Answer to `Hello`: the session stands. One that cannot be resumed is answered by `Goodbye`."""

    version: int
    name: str
    role: str
    incarnation: int
    epoch: int
    received: int
    grant: int


class Data(msgspec.Struct, Generic[M], frozen=True, tag=3, array_like=True, gc=False):
    """Messages `first ..`, and how far the other direction has come. No messages: an acknowledgement or a heartbeat."""

    first: int
    """Sequence number of the first message in this session, from 1."""
    received: int
    grant: int
    messages: tuple[M, ...]


class Goodbye(msgspec.Struct, frozen=True, tag=4, array_like=True):
    """The session is over, for this reason; last frame on the connection."""

    reason: str
    incarnation: int = 0
    """Of the sender, in answer to a `Hello` that was meant for it: it tells the opener whether the life it had the
    session with has ended the session, or has ended itself. 0 elsewhere."""
