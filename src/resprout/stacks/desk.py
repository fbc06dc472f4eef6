"""Desks: one for each kind of peer, with a table of what such a peer may say and who hears it.

A desk finds the peer by the name of its session, and hands to its handlers what it found: a client's session, a link, a
peer. Desks are asked in turn; the first one takes the message whose table has its type and who finds the peer. What no
desk takes is a mistake of the peer (`PeerError`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from resprout.core.contract import EndCode, ProtocolMessage, Sender
from resprout.core.errors import BoundError, ForbiddenError, PeerError

Handler = Callable[[Any, Any], object]
"""Takes (peer, message): the peer as the desk found it, and what it said."""
Heard = TypeVar("Heard", bound=ProtocolMessage)


def on(kind: type[Heard], handler: Callable[[Any, Heard], object]) -> tuple[type[ProtocolMessage], Handler]:
    """Return a row of a table of handlers: who hears messages of this kind."""
    return kind, handler


def said_by(sender: Sender, handlers: Mapping[type[ProtocolMessage], Handler]) -> dict[type, Handler]:
    """Return the part of a table that is for such a sender, as the messages themselves declare."""
    return {kind: handler for kind, handler in handlers.items() if sender in kind.said_by}


def end_code(error: PeerError) -> EndCode:
    """Return the code that ends the session of a peer for its mistake."""
    if isinstance(error, BoundError):
        return EndCode.OUT_OF_BOUNDS
    return EndCode.FORBIDDEN if isinstance(error, ForbiddenError) else EndCode.NONE


class Desk:
    """One kind of peer: how it is found by name, and who hears which of its messages."""

    __slots__ = ("check", "find", "handlers", "heard", "is_guarded", "is_only", "unknown_peer")

    def __init__(
        self,
        find: Callable[[str], Any],
        handlers: Mapping[type, Handler],
        *,
        check: Callable[[Any, Any], None] | None = None,
        is_only: bool = False,
        is_guarded: bool = False,
        heard: Callable[[str, int], None] | None = None,
        unknown_peer: Callable[[str, Any], None] | None = None,
    ) -> None:
        self.find = find
        """Returns the peer for the name of a session; None when it is not of this kind."""
        self.handlers = dict(handlers)
        self.check = check
        """Raises PeerError when the peer may not say this message now."""
        self.is_only = is_only
        """Whether a peer that is found here may say nothing but what is in this table."""
        self.is_guarded = is_guarded
        """Whether `Shell.guard` checks what these peers say."""
        self.heard = heard
        """Called with the name of the peer and the time before each message is handled."""
        self.unknown_peer = unknown_peer
        """Takes (name, message) when the message is in this table and `find` knows no such peer: the peer may not have
        heard yet that it was removed. None: the next desk is asked."""
