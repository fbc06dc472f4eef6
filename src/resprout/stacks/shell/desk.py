"""Desks: one for each kind of peer, with a table of what such a peer may say and who hears it.

A desk finds the peer by the name of its session, and hands to its handlers what it found: a client's session, a link, a
peer. Desks are asked in turn; the first one takes the message whose table has its type and who finds the peer. What no
desk takes is a mistake of the peer (`PeerError`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from resprout.core.contract import ProtocolMessage, Sender

Handler = Callable[[Any, Any], object]
"""(peer, message): who says it, as the desk found it, and what."""
Heard = TypeVar("Heard", bound=ProtocolMessage)


def on(kind: type[Heard], handler: Callable[[Any, Heard], object]) -> tuple[type[ProtocolMessage], Handler]:
    """Return a row of a table of handlers: who hears messages of this kind."""
    return kind, handler


def said_by(sender: Sender, handlers: Mapping[type[ProtocolMessage], Handler]) -> dict[type, Handler]:
    """Return the part of a table that is for such a sender, as the messages themselves declare."""
    return {kind: handler for kind, handler in handlers.items() if sender in kind.said_by}


class Desk:
    """One kind of peer: how it is found by name, and who hears which of its messages."""

    __slots__ = ("check", "find", "handlers", "heard", "is_guarded", "is_only", "strange")

    def __init__(
        self,
        find: Callable[[str], Any],
        handlers: Mapping[type, Handler],
        *,
        check: Callable[[Any, Any], None] | None = None,
        is_only: bool = False,
        is_guarded: bool = False,
        heard: Callable[[str, int], None] | None = None,
        strange: Callable[[str, Any], None] | None = None,
    ) -> None:
        self.find = find
        """By the name of the session; None when the peer is not of this kind."""
        self.handlers = dict(handlers)
        self.check = check
        """Raises PeerError when it is not the time for the peer to say this."""
        self.is_only = is_only
        """Whoever is found here may say nothing that is not in this table."""
        self.is_guarded = is_guarded
        """What peers say here, they may not all say: see `Shell.guard`."""
        self.heard = heard
        """Told of each message that is taken here, and when, before it is handled."""
        self.strange = strange
        """What becomes of messages of this table when the peer is not found, and may not know yet that it is none any
        more; None: the next desk is asked."""
