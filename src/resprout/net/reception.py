"""Receives whoever opens a connection with this node, until it has a session or is turned away.

Openers that have not said who they are are counted, have little time, and make room for each other. One that says who
it is must prove it where that is configured. An opener that is turned away is told why, and the reason is logged. One
that only asks who listens here, or how this node is, gets the answer, and the connection ends (`Inquiries`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from resprout.core import limits
from resprout.core.contract import Connected, Disconnected, Effect, EndCode, TimerFired
from resprout.core.errors import UsageError
from resprout.edge.rights import includes
from resprout.links.frames import Goodbye, Hello, LingerOver
from resprout.links.handshake import shorten
from resprout.links.sessions import TURNED_AWAY, Refusals
from resprout.net.connection_limits import (
    ConnectionCounts,
    SessionCounts,
    SessionDirectory,
    Standing,
    Unidentified,
    is_local,
    source_of,
)
from resprout.net.door import FORBIDDEN, Door, Entrance, OpenerProofs, told
from resprout.net.event_loop import now_us
from resprout.net.peer_connection import PeerConnection
from resprout.net.sessions import AccountTold, AskAccount, Here, Who

if TYPE_CHECKING:
    from resprout.net.connection import TcpConnection
    from resprout.net.host import Host


class Reception:
    def __init__(
        self,
        host: "Host",
        door: Door,
        connections_max: int,
        strangers_max: int,
        sessions_max: int,
        sessions: SessionDirectory | None,
    ) -> None:
        self._host = host
        self._door = door
        self.connections_max = connections_max
        self._unidentified: Unidentified[PeerConnection] = Unidentified(strangers_max)
        self.refusals = Refusals()
        self.proofs = OpenerProofs(host, door, self._refuse_proof, self.withdraw)
        self._places = ConnectionCounts()
        self._sessions = sessions
        self._sessions_max = min(sessions_max, connections_max)
        self._identities = SessionCounts(sessions)
        """Clients with a session, by identity; those that have proven nothing are counted by their address."""
        door.changed = self._look_again

    def release(self) -> None:
        """Break the reference cycles of this object, which is not used any more."""
        self._door.changed = lambda: None
        del self.proofs

    # -- coming and going ----------------------------------------------------------------------------------------------

    def enter(self, connection: PeerConnection) -> bool:
        """Somebody has opened it; False when there is no room, and then it was told so."""
        here, source, most = self._host.here.name, source_of(connection.address), self._door.limits.address_connections
        if not is_local(source) and self._places[source] >= most:
            refuse(connection, f"{here} has {most} connections from this address and takes no more")
            self.turned_away(_source(connection), f"{most} connections from one address is the limit")
            return False
        if not self._has_room():
            most = self.connections_max
            refuse(connection, f"{here} has {most} connections and takes no more")
            self.turned_away(_source(connection), f"{most} connections is the limit")
            return False
        self._unidentified.enter(connection)
        connection.place = source
        self._places.enter(source)
        return True

    def greeted(self, connection: PeerConnection) -> None:
        """An opener has said something: it is no stranger any more, or will be refused for what it said."""
        self._unidentified.leave(connection)
        if not connection.announced:
            connection.announced = True
            self._host.handle(Connected(connection.number, None))

    def withdraw(self, connection: "TcpConnection") -> None:
        """The opener proves first who it is: the machine hears of it again when it greets."""
        if connection.announced:
            connection.announced = False
            self._host.handle(Disconnected(connection.number, None, "it proves first who it is"))

    def left(self, connection: PeerConnection) -> None:
        self._unidentified.leave(connection)
        if connection.place is not None:
            self._places.leave(connection.place)
            connection.place = None

    def _has_room(self) -> bool:
        """For one more that somebody opened. Those who have said nothing make room for it."""
        unidentified = self._unidentified
        while len(unidentified) >= unidentified.places or (
            len(unidentified) and self._host.connections >= self.connections_max
        ):
            stranger = unidentified.next_to_close()
            assert stranger is not None, "there is one to close"
            reason = "it has not said who it is, and others want to"
            why = f"{unidentified.places} connections that have not said who they are is the limit"
            self.turned_away(_source(stranger), why)
            self._host.lost(stranger, reason)
            stranger.abort(reason)
        return self._host.connections < self.connections_max

    # -- who it is -----------------------------------------------------------------------------------------------------

    def check(self, connection: PeerConnection, hello: Hello) -> None:
        """Somebody says who it is: cut it off when it may not be."""
        entrance = self._door.judge(hello.role, hello.name, connection.proven, connection.identity, hello.incarnation)
        if entrance.fault:
            who = told(hello, connection.proven, connection.identity)
            self.turned_away(f"{who} from {_source(connection)}", entrance.fault)
            reason = f"{entrance.fault}{entrance.hint}"
            refuse(connection, f"{self._host.here.name} refuses {hello.role} {hello.name}: {reason}", FORBIDDEN)
        elif hello.role == "client" and (why := self._fault_of_count(connection, hello, entrance)):
            who = f"{hello.name} of {entrance.identity}" if entrance.identity else hello.name
            self.turned_away(f"client {who} from {_source(connection)}", why)
            refuse(connection, f"{self._host.here.name} refuses client {hello.name}: {why}")
        elif hello.role == "client" and not self._may_resume(hello, entrance):
            reason = "it may do less than when its session began, and that session is not over yet"
            self.turned_away(f"client {hello.name} from {_source(connection)}", reason)
            refuse(connection, f"{self._host.here.name} refuses client {hello.name}: {reason}")
        else:
            if hello.role == "client":
                self._identities.enter(self._key_of(connection, entrance), hello.name, _standing(entrance))
            connection.belongs_to = entrance.identity or None
            if entrance.rights is not None:
                connection.permit = connection.permit_for(entrance.rights)

    def _refuse_proof(self, connection: "TcpConnection", who: str, why: str, reason: str, code: EndCode) -> None:
        named = f"{shorten(who)} from " if who else ""
        self.turned_away(f"{named}{_source(connection)}", why)
        refuse(connection, reason, code)

    def _fault_of_count(self, connection: PeerConnection, hello: Hello, entrance: Entrance) -> str:
        """Why there is no room for one more client; empty when there is, and then it is counted."""
        limits = self._door.limits.of_identity(entrance.limits)
        source = source_of(connection.address)
        key = self._key_of(connection, entrance)
        most = limits.identity_clients if entrance.identity else limits.address_connections
        is_counted = bool(entrance.identity) or not is_local(source)
        if is_counted and not self._identities.has_room(key, hello.name, most) and not self._give_up(key):
            if entrance.identity:
                return f"{most} sessions of one identity is the limit (limits.identity_clients)"
            return f"{most} sessions from one address is the limit (limits.address_connections)"
        if why := self._fault_of_sessions(hello, entrance):
            return why
        connection.limits = limits
        return ""

    def _key_of(self, connection: PeerConnection, entrance: Entrance) -> str:
        """Where the sessions of a client are counted."""
        return entrance.identity or f"address {source_of(connection.address)}"

    def _may_resume(self, hello: Hello, entrance: Entrance) -> bool:
        """Whether a client may go on with the session that it has, if any. The subscriptions of a session are those of
        the identity and the rights that it had, so it ends when there are others now. False while the session cannot
        end, because its last connection is not closed yet."""
        before = self._identities.standing_of(hello.name)
        if before is None:
            return True
        identity, rights = before
        if entrance.identity == identity and (
            rights is None or (entrance.rights is not None and includes(entrance.rights, rights))
        ):
            return True
        self._host.handle(TimerFired(LingerOver(hello.name)))
        return self._identities.standing_of(hello.name) is None

    def _fault_of_sessions(self, hello: Hello, entrance: Entrance) -> str:
        """Of all sessions, some are kept for brokers and operators. When the others are taken, a session without a
        connection makes room: one of those who have the most."""
        sessions = self._sessions
        reserved = min(self._door.limits.reserved_sessions, self._sessions_max // 2)
        most = self._sessions_max - reserved
        if sessions is None or sessions.session_count < most or sessions.has_session(hello.name):
            return ""
        if entrance.rights is not None and entrance.rights.operate:
            return ""
        if self._give_up():
            return ""
        kept = f"{reserved} more are kept for brokers and operators: limits.reserved_sessions"
        return f"{most} sessions is the limit (links.sessions_max; {kept})"

    def _give_up(self, key: str | None = None) -> bool:
        """End a session that has no connection, of this identity or address, or of whoever has the most: somebody needs
        the room. False when there is none."""
        away = (
            self._identities.oldest_disconnected(key)
            if key is not None
            else self._identities.oldest_disconnected_of_most()
        )
        if away is None:
            return False
        self._host.handle(TimerFired(LingerOver(away)))
        self.refusals.count("its session had no connection, and another client needed the room")
        return True

    def check_asker(self, connection: PeerConnection, asked: AskAccount) -> str:
        """Somebody wants to know how this broker is: why it may not; empty when it may. Then it was told so."""
        local = is_local(source_of(connection.address))
        near = local or any(one.is_broker and one.address == connection.address for one in self._host.all_connections())
        fault = self._door.judge_asker(asked.role, asked.name, connection.proven, connection.identity, local, near)
        if fault:
            self.turned_away(f"the status query of {shorten(asked.name)} from {_source(connection)}", fault)
            reason = f"{self._host.here.name} refuses {shorten(asked.name)}: {fault}"
            refuse(connection, reason, FORBIDDEN)
        return fault

    def refused(self, client: str, why: str) -> None:
        """A client wanted something that it may not do, and was told so."""
        self.turned_away(client, why, "was refused")

    def _look_again(self) -> None:
        """There are new rules. Whoever may do less than before has to come again: what it has subscribed to may be
        among it."""
        for connection in self._host.all_connections():
            if connection.permit is None or connection.name is None or connection.is_internal:
                continue
            entrance = self._door.judge("client", connection.name, connection.proven, connection.identity)
            if entrance.rights is None or not includes(entrance.rights, connection.permit.rights):
                why = entrance.fault or "it may do less than before"
                self.turned_away(f"client {connection.name}", f"the rules have changed, and {why}")
                refuse(connection, f"the rules have changed, and {why}", FORBIDDEN if entrance.fault else EndCode.NONE)
            else:
                connection.permit = connection.permit_for(entrance.rights)
                self._identities.change_rights(connection.name, entrance.rights)

    def distrust(self, connection: "TcpConnection", who: str, why: str) -> None:
        """There is no TLS with whoever is at the other end, or it is not who it should be."""
        if connection.peer is not None:
            self.turned_away(f"{connection.peer} at {_source(connection)}{who}", why, "is not spoken to")
        else:
            self.turned_away(f"{_source(connection)}{who}", why)
            if connection.is_plain:
                refuse(connection, f"{self._host.here.name} speaks TLS, and nothing else")
        connection.close(why)

    def turned_away(self, who: str, why: str, what: str = TURNED_AWAY) -> None:
        notes: list[Effect] = []
        self.refusals.tell(who, why, now_us(), notes, what)
        self._host.perform(notes)


def refuse(connection: PeerConnection, reason: str, code: EndCode = EndCode.NONE) -> None:
    """The peer broke the rules of the connection: tell it, cut it off, and let its session, if any, wait."""
    connection.send(Goodbye(shorten(reason, limits.REASON_BYTES), code=code))
    connection.close(reason)


def _standing(entrance: Entrance) -> Standing:
    return (entrance.identity, entrance.rights)


def _source(connection: PeerConnection) -> str:
    return connection.address or "an unknown address"


class Inquiries:
    """`latest_incarnation`: the latest life of a peer that was met here. `asked` hears who wants to know who listens
    here. `tells`: what is answered to those who ask how this node is, and may."""

    def __init__(
        self,
        host: "Host",
        latest_incarnation: Callable[[str], int],
        asked: Callable[[Who], None],
        tells: Callable[[AskAccount], bytes] | None,
    ) -> None:
        self._host = host
        self.latest_incarnation = latest_incarnation
        self._asked = asked
        self._tells = tells

    def answer(self, connection: "TcpConnection", asked: Who | AskAccount) -> None:
        """To somebody who wants nothing else."""
        if self._host.is_barred(asked.name):
            connection.abort("cut off")
        elif isinstance(asked, Who):
            self._who(connection, asked)
        else:
            self._how(connection, asked)

    def _who(self, connection: "TcpConnection", asked: Who) -> None:
        host, here = self._host, self._host.here
        met = self.latest_incarnation(asked.name)
        door = host.door
        connection.send(Here(
            here.name, here.role, here.incarnation, met, host.network, host.notices(), here.stack, door.has_rules,
            door.network_key is not None, here.max_payload,
        ))  # fmt: skip
        connection.close("answered")
        self._asked(host.door.as_proven(asked, connection.proven))

    def _how(self, connection: "TcpConnection", asked: AskAccount) -> None:
        host = self._host
        if self._tells is None:
            refuse(connection, f"{host.here.name} tells nothing of itself")
        elif not host.reception.check_asker(connection, asked):
            try:
                connection.send(AccountTold(host.here.name, self._tells(asked)))
                connection.close("told")
            except UsageError as error:
                refuse(connection, str(error))
