"""Receives whoever opens a connection with this node, until it has a session or is turned away.

Strangers are counted, have little time, and make room for each other; whoever says who it is, is asked to prove it
where that is wanted. Everybody who is turned away is told why, and so are the people who read the log.
"""

from typing import TYPE_CHECKING

from resprout.core import limits
from resprout.core.contract import Connected, Disconnected, Effect, EndCode
from resprout.edge.broker.guard import Permit
from resprout.edge.broker.session import SUBSCRIPTIONS_MAX
from resprout.edge.rights import includes
from resprout.links.frames import Goodbye, Hello
from resprout.links.handshake import shorten
from resprout.links.refusals import TURNED_AWAY, Refusals
from resprout.net.clock import now_us
from resprout.net.crowd import Crowd
from resprout.net.door import Door, Entrance, told
from resprout.net.frames import AskAccount
from resprout.net.proving import FORBIDDEN, OpenerProofs
from resprout.net.unidentified import Unidentified, is_local, source_of

if TYPE_CHECKING:
    from resprout.net.connection import TcpConnection
    from resprout.net.host import Host


class Reception:
    def __init__(self, host: "Host", door: Door, connections_max: int, strangers_max: int) -> None:
        self._host = host
        self._door = door
        self.connections_max = connections_max
        self._unidentified = Unidentified(strangers_max)
        self.refusals = Refusals()
        self.proofs = OpenerProofs(host, door, self._refuse_proof, self.withdraw)
        self._places = Crowd()
        self._identities = Crowd()
        door.changed = self._look_again

    # -- coming and going ----------------------------------------------------------------------------------------------

    def enter(self, connection: "TcpConnection") -> bool:
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

    def greeted(self, connection: "TcpConnection") -> None:
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

    def left(self, connection: "TcpConnection") -> None:
        self._unidentified.leave(connection)
        if connection.place is not None:
            self._places.leave(connection.place)
            connection.place = None
        if connection.belongs_to is not None:
            self._identities.leave(connection.belongs_to)
            connection.belongs_to = None

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
            self.turned_away(_source(stranger), why)
            self._host.lost(stranger, reason)
            stranger.abort(reason)
        return self._host.connections < self.connections_max

    # -- who it is -----------------------------------------------------------------------------------------------------

    def check(self, connection: "TcpConnection", hello: Hello) -> None:
        """Somebody says who it is: cut it off when it may not be."""
        entrance = self._door.judge(hello.role, hello.name, connection.proven, connection.identity, hello.incarnation)
        if entrance.fault:
            who = told(hello, connection.proven, connection.identity)
            self.turned_away(f"{who} from {_source(connection)}", entrance.fault)
            refuse(connection, f"{self._host.here.name} refuses {hello.role} {hello.name}: {entrance.fault}", FORBIDDEN)
        elif entrance.identity and not self._counts(connection, hello, entrance):
            most = entrance.clients or self._door.limits.identity_clients
            why = f"{most} clients of one identity is the limit"
            self.turned_away(f"client {hello.name} of {entrance.identity} from {_source(connection)}", why)
            refuse(connection, f"{self._host.here.name} refuses client {hello.name}: {why}")
        elif entrance.rights is not None:
            most = min(self._door.limits.client_subscriptions, entrance.subscriptions or SUBSCRIPTIONS_MAX)
            connection.permit = Permit(entrance.rights, most)

    def _refuse_proof(self, connection: "TcpConnection", who: str, why: str, reason: str, code: EndCode) -> None:
        named = f"{shorten(who)} from " if who else ""
        self.turned_away(f"{named}{_source(connection)}", why)
        refuse(connection, reason, code)

    def _counts(self, connection: "TcpConnection", hello: Hello, entrance: Entrance) -> bool:
        """As one of its identity; False when there are enough. Whoever comes again, comes in place of itself."""
        most = entrance.clients or self._door.limits.identity_clients
        if hello.role == "client" and self._identities[entrance.identity] >= most:
            here = self._host.all_connections()
            if not any(one.name == hello.name and one.belongs_to == entrance.identity for one in here):
                return False
        connection.belongs_to = entrance.identity
        self._identities.enter(entrance.identity)
        return True

    def check_asker(self, connection: "TcpConnection", asked: AskAccount) -> str:
        """Somebody wants to know how this broker is: why it may not; empty when it may. Then it was told so."""
        local = is_local(source_of(connection.address))
        near = local or any(one.is_broker and one.address == connection.address for one in self._host.all_connections())
        fault = self._door.judge_asker(asked.role, asked.name, connection.proven, connection.identity, local, near)
        if fault:
            self.turned_away(f"{shorten(asked.name)} from {_source(connection)}, who asks for an account,", fault)
            reason = f"{self._host.here.name} tells {shorten(asked.name)} nothing: {fault}"
            refuse(connection, reason, FORBIDDEN)
        return fault

    def refused(self, client: str, why: str) -> None:
        """A client wanted something that it may not do, and was told so."""
        self.turned_away(client, why, "was refused")

    def _look_again(self) -> None:
        """There are new rules. Whoever may do less than before has to come again: what it has subscribed to may be
        among it."""
        for connection in self._host.all_connections():
            if connection.permit is None or connection.name is None:
                continue
            entrance = self._door.judge("client", connection.name, connection.proven, connection.identity)
            if entrance.rights is None or not includes(entrance.rights, connection.permit.rights):
                why = entrance.fault or "it may do less than before"
                self.turned_away(f"client {connection.name}", f"the rules have changed, and {why}")
                refuse(connection, f"the rules have changed, and {why}", FORBIDDEN if entrance.fault else EndCode.NONE)
            else:
                connection.permit = Permit(entrance.rights, connection.permit.most_subscriptions)

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


def refuse(connection: "TcpConnection", reason: str, code: EndCode = EndCode.NONE) -> None:
    """The peer broke the rules of the connection: tell it, cut it off, and let its session, if any, wait."""
    connection.send(Goodbye(shorten(reason, limits.REASON_BYTES), code=code))
    connection.close(reason)


def _source(connection: "TcpConnection") -> str:
    return connection.address or "somebody"
