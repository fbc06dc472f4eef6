"""A tree without repair: each broker joins the parent that it was given, and accepts every broker that asks.

A broker is *in the tree* when its parent says so, and a parent says so when it is in the tree itself; the root always
is. So a network forms from the root, and every neighbour can pass on what it is told. A broker whose parent is gone is
out of the tree until that parent returns; its own children stay with it. A link that begins or ends is reported as an
outcome (`LinkBegan`, `LinkEnded`), without what was lost on it.

This module does not look for another parent and does not declare a broker dead. Without a given parent, a broker asks
its contacts in turn until one answers. A contact that asks back was a child of an earlier life: then this broker is the
root again.

In a `MappedTree`, each broker also knows the tree within some hops (`blocks.neighbourhood`): brokers tell their
neighbours who their own neighbours are and where these listen, and pass on news to those whom it concerns
(`PlacesNear`).
"""

from collections.abc import Mapping

import msgspec

from resprout.core.contract import Heard, LinkDown, LinkUp, Locate, Outcome, ProtocolMessage, Silent
from resprout.core.errors import PeerError
from resprout.edge.messages import Successor
from resprout.overlay.messages import Place
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox, Peer, Peers
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import Absent, MemberSeen, StackStatus, seen
from resprout_lab.blocks.neighbourhood import Neighbourhood


class Join(ProtocolMessage, frozen=True, tag=176):
    """Be my parent."""

    address: str = ""
    """Where the sender listens."""


class Joined(ProtocolMessage, frozen=True, tag=177):
    """You are in the tree, below me. The first message of the link."""

    address: str = ""


TREE_MESSAGES = (Join, Joined)


class LinkBegan(Outcome, frozen=True):
    name: str


class LinkEnded(Outcome, frozen=True):
    name: str


class PlainTree:
    def __init__(self, seat: BrokerSeat, step: Step, outbox: Outbox) -> None:
        self._seat = seat
        self._step = step
        self._outbox = outbox
        self._peers = Peers(step, outbox)
        self._candidates = [seat.parent] if seat.parent is not None else list(seat.contacts)
        self._asking: dict[str, Join] = {}
        """Would-be children of a broker that is not in the tree itself."""
        self.parent = self._candidates[0] if self._candidates else None
        self.is_in = self.parent is None
        """In the tree."""
        self.links: dict[str, Successor] = {}
        """The neighbours, and where they listen."""

    @property
    def successors(self) -> tuple[Successor, ...]:
        """Where clients turn when this broker is gone."""
        return tuple(self.links.values())

    def status(self) -> StackStatus:
        """For people."""
        return StackStatus(self.is_in, self.parent, tuple(self.links), self._members(), self._silent())

    def _members(self) -> tuple[MemberSeen, ...]:
        return tuple([MemberSeen(one.name, self._life(one.name), one.address) for one in self.links.values()])

    def _life(self, name: str) -> int | Absent:
        return self._peers.incarnation(name) or msgspec.UNSET

    def _silent(self) -> tuple[str, ...]:
        return tuple([name for name in self.links if not self._peers.is_heard(name)])

    def begin(self) -> None:
        if self.parent is not None:
            self._peers.open(self.parent)

    def desks(self, handlers: Mapping[type, Handler]) -> tuple[Desk, ...]:
        """What brokers may say: any of them, and besides (`handlers`) neighbours."""
        joining: dict[type, Handler] = {Join: self._asked, Joined: self._accepted}
        return Desk(self._peers.find, joining), Desk(self._neighbour, handlers)

    def _neighbour(self, name: str) -> Peer | None:
        return self._peers.find(name) if name in self.links else None

    # -- sessions (`BrokerSessions`) -----------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self._peers.get(name) is not None

    def up(self, event: LinkUp) -> None:
        self._lose(event.peer)  # a session that begins anew has lost the old one
        peer = self._peers.came_up(event.peer, event.incarnation, event.room)
        if peer is not None and peer.name == self.parent and not self.is_in:
            self._outbox.send(peer.name, Join(self._seat.address))

    def down(self, event: LinkDown) -> None:
        self._peers.went_down(event.peer)
        self._lose(event.peer)

    def silent(self, event: Silent) -> None:
        """A contact that is not there: the next one. A parent is waited for."""
        self._peers.lost(event.peer, event.refused)
        if event.peer == self.parent and not self.is_in and self._seat.parent is None:
            self._peers.close(event.peer, "somebody else is asked")
            self._candidates.append(self._candidates.pop(0))
            self.parent = self._candidates[0]
            self._peers.open(self.parent)

    def heard(self, event: Heard) -> None:
        self._peers.heard(event.peer)

    def cut_off(self, name: str, reason: str) -> None:
        self._peers.close(name, reason)
        self._lose(name)
        if name == self.parent:
            self._peers.open(name)

    def _lose(self, name: str) -> None:
        self._asking.pop(name, None)
        if self.links.pop(name, None) is not None:
            self.is_in = self.is_in and name != self.parent
            self._step.outcomes.append(LinkEnded(name))

    # -- joining -------------------------------------------------------------------------------------------------------

    def _asked(self, peer: Peer, message: Join) -> None:
        if peer.name in self.links:
            raise PeerError(f"{peer.name} is a neighbour already")
        if not self.is_in and self._seat.parent is None and peer.name in self._candidates:
            if self.parent is not None and self.parent != peer.name:
                self._peers.close(self.parent, "this is the root")
            self.parent, self.is_in = None, True
        self._asking[peer.name] = message
        self._take_in()

    def _accepted(self, peer: Peer, message: Joined) -> None:
        if peer.name != self.parent or self.is_in:
            raise PeerError(f"{peer.name} was not asked for a place")
        self.is_in = True
        self._step.note("joined", peer.name)
        self._link(peer.name, message.address)
        self._take_in()

    def _take_in(self) -> None:
        if self.is_in:
            for name, message in self._asking.items():
                self._outbox.send(name, Joined(self._seat.address))
                self._link(name, message.address)
            self._asking.clear()

    def _link(self, name: str, address: str) -> None:
        self.links[name] = Successor(name, address)
        self._step.outcomes.append(LinkBegan(name))


class PlacesNear(ProtocolMessage, frozen=True, tag=187):
    """Who stands next to whom, as far as the receiver has to know."""

    places: tuple[Place, ...]


class MappedTree(PlainTree):
    def __init__(self, seat: BrokerSeat, step: Step, outbox: Outbox, view: Neighbourhood) -> None:
        super().__init__(seat, step, outbox)
        self._view = view

    def desks(self, handlers: Mapping[type, Handler]) -> tuple[Desk, ...]:
        return super().desks({PlacesNear: self._told, **handlers})

    def is_dead(self, name: str) -> bool:
        """Declared dead, as far as is known here; in a tree that declares nobody dead, nobody is."""
        return False

    def _members(self) -> tuple[MemberSeen, ...]:
        return tuple([seen(one, self.is_dead(one.name)) for one in self._view.places(self._view.nodes())])

    def _told(self, peer: Peer, message: PlacesNear) -> None:
        self._spread(self._view.learn(message.places))

    def _spread(self, news: list[Place]) -> None:
        for place in news:
            if place.address and place.name != self._view.name:
                self._step.out.append(Locate(place.name, place.address))
        for name in self.links:
            self._tell(name, self._view.concerning(name, news))

    def _tell_everything(self, name: str) -> None:
        """What one has to know with whom there is a new link."""
        self._tell(name, self._view.everything_for(name))

    def _tell(self, name: str, places: tuple[Place, ...]) -> None:
        if places:
            self._outbox.send(name, PlacesNear(places))
