"""Receives whoever opens a connection with this node, until it has a session or is turned away.

Strangers are counted, have little time, and make room for each other; whoever says who it is, is asked to prove it
where that is wanted. Everybody who is turned away is told why, and so are the people who read the log.
"""

from typing import TYPE_CHECKING

from resprout.core import limits
from resprout.core.contract import Effect
from resprout.links.frames import Goodbye, Hello
from resprout.links.handshake import shorten
from resprout.links.refusals import TURNED_AWAY, Refusals
from resprout.net.clock import now_us
from resprout.net.door import Door, told
from resprout.net.unidentified import Unidentified

if TYPE_CHECKING:
    from resprout.net.connection import TcpConnection
    from resprout.net.host import Host


class Reception:
    def __init__(self, host: "Host", door: Door, connections_max: int, strangers_max: int) -> None:
        self._host = host
        self._door = door
        self.connections_max = connections_max
        self._unidentified = Unidentified(strangers_max)
        self._refusals = Refusals()

    # -- coming and going ----------------------------------------------------------------------------------------------

    def enter(self, connection: "TcpConnection") -> bool:
        """Somebody has opened it; False when there is no room, and then it was told so."""
        if self._has_room():
            self._unidentified.enter(connection)
            return True
        most = self.connections_max
        refuse(connection, f"{self._host.here.name} has {most} connections and takes no more")
        self._turned_away(_source(connection), f"{most} connections is the limit")
        return False

    def greeted(self, connection: "TcpConnection") -> None:
        """An opener has said something: it is no stranger any more, or will be refused for what it said."""
        self._unidentified.leave(connection)

    def left(self, connection: "TcpConnection") -> None:
        self._unidentified.leave(connection)

    def _has_room(self) -> bool:
        """For one more that somebody opened. Those who have said nothing make room for it."""
        unidentified = self._unidentified
        while len(unidentified) >= unidentified.places or (
            len(unidentified) and self._host.connections >= self.connections_max
        ):
            stranger = unidentified.one_too_many()
            assert stranger is not None, "somebody waits there"
            reason = "it has not said who it is, and others want to"
            why = f"{unidentified.places} connections that have not said who they are is the limit"
            self._turned_away(_source(stranger), why)
            self._host.lost(stranger, reason)
            stranger.abort(reason)
        return self._host.connections < self.connections_max

    # -- who it is -----------------------------------------------------------------------------------------------------

    def check(self, connection: "TcpConnection", hello: Hello) -> None:
        """Somebody says who it is: cut it off when it may not be."""
        if fault := self._door.fault_of(hello, connection.proven):
            self._turned_away(f"{told(hello, connection.proven)} from {_source(connection)}", fault)
            refuse(connection, f"{self._host.here.name} refuses {hello.role} {hello.name}: {fault}")

    def distrust(self, connection: "TcpConnection", who: str, why: str) -> None:
        """There is no TLS with whoever is at the other end, or it is not who it should be."""
        if connection.peer is not None:
            self._turned_away(f"{connection.peer} at {_source(connection)}{who}", why, "is not spoken to")
        else:
            self._turned_away(f"{_source(connection)}{who}", why)
            if connection.is_plain:
                refuse(connection, f"{self._host.here.name} speaks TLS, and nothing else")
        connection.close(why)

    def _turned_away(self, who: str, why: str, what: str = TURNED_AWAY) -> None:
        notes: list[Effect] = []
        self._refusals.tell(who, why, now_us(), notes, what)
        self._host.perform(notes)


def refuse(connection: "TcpConnection", reason: str) -> None:
    """The peer broke the rules of the connection: tell it, cut it off, and let its session, if any, wait."""
    connection.send(Goodbye(shorten(reason, limits.REASON_BYTES)))
    connection.close(reason)


def _source(connection: "TcpConnection") -> str:
    return connection.address or "somebody"
