"""Events of sessions with other brokers and clients: they begin and end, fall silent, are heard again, have room.

A session between neighbours ends for good only when one of the two counts as dead in the tree. A parent that ends it
has declared this broker dead, so this life is over. A child that ends it has either gone elsewhere before it became a
child, or was told that this broker is dead. This broker asks the child, which answers `Fenced` in the second case.

`TreeNews` handles waves, in which neighbours tell about the tree, and acts on changes of the tree.
"""

from resprout.core.contract import EndCause, EndCode, Heard, LinkDown, LinkUp, Locate, Silent, Stirred, Writable
from resprout.core.limits import newcomer_name
from resprout.edge.broker.sessions import ClientSessions
from resprout.order.link import Link
from resprout.order.reports import Reports
from resprout.order.totals.levels import TotalAcks
from resprout.overlay.council import Council
from resprout.overlay.messages import Ping, Seek, Sought, Tell, Told
from resprout.overlay.waves import Waves
from resprout.stacks.peers import Outbox, Peers
from resprout.stacks.resprout.durables import Durables
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.joining.admission import Admission
from resprout.stacks.resprout.joining.newcomer import Newcomer, NewcomerState
from resprout.stacks.resprout.joining.reunion import Reunion
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import TreeChanged
from resprout.stacks.resprout.repair.coordinator import Coordinator
from resprout.stacks.resprout.served_clients import ServedClients


class PeerSessions:
    """Reacts to sessions that begin and end, to silence, and to room."""

    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        outbox: Outbox,
        links: dict[str, Link],
        sessions: ClientSessions,
        reports: Reports,
        total_acks: TotalAcks,
        forwarding: Forwarding,
        council: Council,
        served: ServedClients,
        newcomer: Newcomer,
        admission: Admission,
        coordinator: Coordinator,
        durables: Durables,
        reunion: Reunion,
    ) -> None:
        self._life = life
        self._peers = peers
        self._outbox = outbox
        self._links = links
        self._sessions = sessions
        self._reports = reports
        self._total_acks = total_acks
        self._forwarding = forwarding
        self._council = council
        self._served = served
        self._newcomer = newcomer
        self._admission = admission
        self._coordinator = coordinator
        self._durables = durables
        self._reunion = reunion
        self._unresponsive: tuple[str, ...] = ()
        """Neighbours that keep their connections and answer nothing, as was noted in the trace."""

    def up(self, event: LinkUp) -> None:
        """A session with a client or a broker begins."""
        name = event.peer
        if event.role == "client":
            self._served.arrive(event)
            return
        self._served.give_way(name)
        real_name = newcomer_name(name)
        if real_name is None and not self._newcomer.reached(name, event.trip_us):
            return
        if self._peers.came_up(name, event.incarnation, event.room) is None:
            return
        if real_name is None:
            self._met(name, event.incarnation)
        else:
            self._admission.arrived(name, real_name, event.incarnation)

    def _met(self, name: str, incarnation: int) -> None:
        """A session with this life of a broker begins."""
        life = self._life
        self._council.connected(name, life.now_us, incarnation)
        self._coordinator.met(name)

    def down(self, event: LinkDown) -> None:
        """A session is over for good. If it was that of a neighbour, find out which of the two counts as dead."""
        life = self._life
        name = event.peer
        if name in self._sessions.all:
            self._served.leave(name)
            return
        incarnation = self._peers.incarnation(name)
        self._peers.went_down(name)
        self._admission.lost(name)
        self._reunion.lost(name)
        self._newcomer.lost(name)
        link = self._links.get(name)
        if link is None or not link.open or link.incarnation != incarnation:
            return  # it was no neighbour, or a later life of one
        life.note("suspect", f"{name}: {event.reason}")
        if event.cause is not EndCause.RESTARTED and name == life.view.parent:
            life.retire(f"{name} ended the session: {event.reason}")
        elif event.cause is EndCause.CLOSED and self._is_stranger(link):
            self._coordinator.unlink(link)
        elif event.cause is EndCause.CLOSED:
            link.silent = True
            link.asked_back_us = life.now_us
            self._peers.post(name, Ping(life.now_us, life.view.decided.version))
        else:  # the session cannot go on, so this life of the neighbour is over for the tree
            self._council.silent(name, True, life.now_us)

    def cut_off(self, name: str, reason: str, code: EndCode) -> None:
        """End the session of a peer that broke the rules."""
        life = self._life
        if name in self._sessions.all:
            if code is EndCode.OUT_OF_BOUNDS:
                life.note("out_of_bounds", f"{name}: {reason}")
            self._served.cut_off(name, reason, code)
            return
        if not self._peers.is_up(name):
            return  # what it said was on its way when its session ended
        life.note("suspect", f"{name}: {reason}")
        incarnation = self._peers.incarnation(name)
        self._peers.close(name, reason)
        if name in self._links and self._links[name].incarnation == incarnation:
            if name == life.view.parent:
                life.retire(f"{name}: {reason}")
            else:
                self._council.silent(name, True, life.now_us)

    def silent(self, event: Silent) -> None:
        """A connection broke or could not be made: tell the council, which suspects the peer. Reports to a neighbour
        pause; its link stays open."""
        life = self._life
        peer = self._peers.lost(event.peer, event.refused)
        if peer is None:
            self._durables.silent(event.peer, event.was_open)
            return
        link = self._links.get(event.peer)
        if link is not None and link.open:
            if not link.silent:
                life.note("suspect", f"{event.peer} is not heard")
            link.silent = True
        if peer.is_newcomer:
            return  # it will come again or not
        if life.leading and self._coordinator.awaits(event.peer):
            self._peers.open(event.peer)  # its host will tell whether it is gone
        self._council.silent(event.peer, event.refused, life.now_us)
        if life.leading:
            self._coordinator.tick()
        if self._newcomer.state is not NewcomerState.PLACED:
            self._newcomer.silent(event.peer)

    def heard(self, event: Heard) -> None:
        """A connection stands again: reports go on, and waiting clients are looked at again."""
        life = self._life
        peer = self._peers.heard(event.peer)
        if peer is None:
            self._durables.heard(event.peer)
        if peer is None or peer.is_newcomer:
            return
        self._council.connected(event.peer, life.now_us)
        self._clear(event.peer)
        self._served.decide_all()

    def stirred(self, event: Stirred) -> None:
        """Count progress of a large message as a sign of life."""
        life = self._life
        if self._peers.get(event.peer) is not None:
            self._council.stirred(event.peer, life.now_us)

    def writable(self, event: Writable) -> None:
        """A peer grants `room` bytes: send it what waits."""
        life = self._life
        if (session := self._sessions.all.get(event.peer)) is not None:
            self._sessions.writable(session, event.room, life.out)
            return
        self._outbox.writable(event.peer, event.room)
        link = self._links.get(event.peer)
        if link is not None and not self._outbox.waiting(event.peer):
            self._clear(event.peer)
            self._forwarding.pump(link)

    def tick(self) -> None:
        """Once per heartbeat: note neighbours that keep a connection and answer nothing. Treat children that ended
        their sessions and did not answer for a lease as silent, not as gone: their answer, perhaps that this broker was
        declared dead, may be on its way. If they are gone, their hosts refuse."""
        life = self._life
        unresponsive = self._council.unresponsive(life.now_us) if life.attached else ()
        for name in unresponsive:
            if name not in self._unresponsive:
                life.note("suspect", f"{name} keeps its connection and answers nothing")
        self._unresponsive = unresponsive
        for link in list(self._links.values()):
            if link.asked_back_us is not None and life.now_us - link.asked_back_us > life.options.lease_us:
                link.asked_back_us = None
                if link.open:
                    self._council.silent(link.name, False, life.now_us)

    def _is_stranger(self, link: Link) -> bool:
        """Whether the neighbour is a newcomer that was welcomed here after it had gone elsewhere: it never spoke as
        a child."""
        place = self._life.view.places.get(link.name)
        me = self._life.seat.name
        return place is None or place.incarnation != link.incarnation or not place.version or place.parent != me

    def _clear(self, name: str) -> None:
        """Send reports to a neighbour again, now that nothing waits before them."""
        link = self._links.get(name)
        if link is not None and link.silent and link.open and self._peers.is_clear(name):
            link.silent = False
            self._total_acks.touch_all()
            self._reports.all_soon()


class TreeNews:
    """Hears waves about the tree, and acts on changes of the tree."""

    def __init__(
        self,
        life: BrokerLife,
        waves: Waves,
        council: Council,
        admission: Admission,
    ) -> None:
        self._life = life
        self._waves = waves
        self._council = council
        self._admission = admission

    def heard(self, link: Link, message: Tell | Told | Seek | Sought) -> None:
        life = self._life
        self._waves.handlers[type(message)](link.name, message, life.now_us)
        if isinstance(message, Tell):
            known = life.view.places
            here = [place for place in message.places if place.address and known.get(place.name) is place]
            life.out.extend([Locate(place.name, place.address) for place in here])  # it may have come back elsewhere
        if isinstance(message, Tell | Told):  # a search for a name changes nothing
            life.outcomes.append(TreeChanged())

    def changed(self, outcome: TreeChanged) -> None:
        life = self._life
        if life.view.parent is None and len(life.view.configuration.voters) <= 2 * life.faults:
            self._council.extend_configuration(life.now_us)  # a young root has nobody to follow it: let newcomers do so
        self._admission.admit()  # somebody may have told where there is room
