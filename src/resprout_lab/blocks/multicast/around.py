"""The tree, with ways around the dead: the neighbours of a dead broker become neighbours of each other.

Everybody knows the tree within two hops (`blocks.neighbourhood`): brokers tell their neighbours who their neighbours
are, and where they listen. When the host of a neighbour says that its process is gone, when the failure detector
suspects it, or when another neighbour of it says so (`Around`), it is passed over: its other neighbours are called, and
are links from then on. What it may have owed them is theirs to send (below); who has sent all of
that says so (`Flushed`). A broker that was suspected and lives is told so, and begins another life.

Circles do no harm: what comes a second time is dropped. Nobody takes the place of the dead, and a broker that returns
joins like a newcomer, below the parent that it was given.

A broker knows which others have a publication as far as it must: to call it safe, and to make good what a dead one
owed. Over each link both ends count what came (`blocks.crossing`). A broker tells a neighbour how much of what that one
sent is here, how much of it all others next to here and all readers here have, and the same of what was sent to it. So
each knows what a neighbour may still owe to its other neighbours and to its clients, whichever way it came: that is
kept, and sent around it when it dies, and handed over to its clients.
"""

from collections.abc import Callable, Mapping

from resprout.core.contract import EndCause, Heard, LinkDown, LinkUp, Outcome, Retire, Silent
from resprout.core.errors import PeerError
from resprout.edge.messages import Successor
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.crossing import CrossedLink, Progress
from resprout_lab.blocks.detector import FailureDetector
from resprout_lab.blocks.multicast.messages import Around, Flushed, MulticastMessage
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.blocks.tree import MappedTree, PlacesNear


class Met(Outcome, frozen=True):
    """A link around a dead broker: what that one may have owed goes over it now."""

    name: str
    dead: str


class BypassTree(MappedTree):
    def __init__(self, seat: BrokerSeat, step: Step, outbox: Outbox, suspect_us: int) -> None:
        super().__init__(seat, step, outbox, Neighbourhood(seat.first_place, 2))
        self.detector = FailureDetector(step, suspect_us, self._suspect)
        self._over: dict[str, int] = {}
        """By name: the latest life that was passed over."""
        self._lives: dict[str, int] = {}
        """By name: the life that was passed over, or ended its session."""
        self._unsure: dict[str, None] = {}
        """Those that have ended the session themselves: they live, and may have passed this broker over."""
        self._unheard: dict[str, None] = {}
        """Children that may not know yet that they are in the tree: nobody is told of them."""
        self._unflushed: dict[str, dict[str, None]] = {}
        """By dead broker: its other neighbours that have not said all yet."""
        self._met: dict[tuple[str, str], None] = {}
        """(neighbour, dead broker): they know of each other."""

    def others(self, dead: str) -> list[str] | None:
        """Its neighbours besides this broker, as far as they are known here; None unless it is passed over."""
        return self._others(dead) if dead in self._unflushed else None

    def is_replaced(self, name: str, life: int) -> bool:
        """This life of it is over, and all that it may have owed has come, or it has begun another one."""
        is_over = name in self._unflushed or 0 < life < self._peers.incarnation(name)
        return is_over and not self._unflushed.get(name)

    def is_dead(self, name: str) -> bool:
        return name in self._unflushed

    def last_life(self, name: str) -> int:
        """The life in which it was passed over."""
        return self._lives.get(name, 0)

    def is_near(self, name: str) -> bool:
        return name in self.links or name in self._unflushed

    def desks(self, handlers: Mapping[type, Handler]) -> tuple[Desk, ...]:
        return Desk(self._peers.find, {Around: self._around}), *super().desks({Flushed: self._flushed, **handlers})

    # -- who is where --------------------------------------------------------------------------------------------------

    def _link(self, name: str, address: str) -> None:
        super()._link(name, address)
        self._unsure.pop(name, None)
        if self._unflushed.pop(name, None) is not None:  # it has returned
            self._met = {pair: None for pair in self._met if pair[1] != name}
        if name == self.parent:
            self._stand_next_to(name)
        else:
            self._unheard[name] = None
        self._tell_everything(name)

    def _stand_next_to(self, name: str) -> None:
        self._spread(self._view.stand_next_to((*self._view.own.neighbours, name)))

    def _told(self, peer: Peer, message: PlacesNear) -> None:
        super()._told(peer, message)
        if peer.name in self._unheard:
            del self._unheard[peer.name]
            self._stand_next_to(peer.name)

    # -- the dead ------------------------------------------------------------------------------------------------------

    def up(self, event: LinkUp) -> None:
        super().up(event)
        if event.peer not in self._unsure:
            self.detector.heard(event.peer)
        if event.incarnation <= self._over.get(event.peer, 0):  # it lives, and was passed over all the same
            self._outbox.send(event.peer, Around(event.peer))
        self._meet(event.peer)

    def heard(self, event: Heard) -> None:
        super().heard(event)
        self.detector.heard(event.peer)

    def _suspect(self, name: str) -> None:
        if name in self._unsure:
            self._call_others(name)
        elif name in self.links:
            self._pass_over(name)
        elif name == self.parent and not self.is_in:
            self._ask_another()
            return
        self._peers.open(name)  # it may live, and has to be told

    def silent(self, event: Silent) -> None:
        self._peers.lost(event.peer, event.refused)
        if event.refused and event.peer in self.links:
            self._pass_over(event.peer)
        elif event.refused and event.peer == self.parent and not self.is_in:
            self._ask_another()
        elif event.peer in self.links or (event.peer == self._seat.parent == self.parent and not self.is_in):
            self._peers.open(event.peer)  # whoever opened the session may be gone: its host is asked
            self.detector.silent(event.peer)
        else:
            super().silent(event)

    def _ask_another(self) -> None:
        """The parent that was given died before this broker was in the tree: whoever else was named is as good."""
        assert self.parent is not None, "there was one"
        for name in self._seat.contacts:
            if name not in self._candidates:
                self._candidates.append(name)
        self._peers.close(self.parent, "it is gone")
        self._candidates.append(self._candidates.pop(0))
        self.parent = self._candidates[0]
        self._peers.open(self.parent)

    def down(self, event: LinkDown) -> None:
        is_neighbour = event.peer in self._view.own.neighbours and event.peer in self.links
        if is_neighbour:
            self._pass_over(event.peer, is_sure=event.cause is not EndCause.CLOSED)
        super().down(event)
        if is_neighbour and event.peer in self._unsure:
            self._peers.open(event.peer)

    def _lose(self, name: str) -> None:
        super()._lose(name)
        self._unheard.pop(name, None)
        self._met = {pair: None for pair in self._met if pair[0] != name}

    def _others(self, dead: str) -> list[str]:
        place = self._view.place(dead)
        return [] if place is None else [name for name in place.neighbours if name != self._view.name]

    def _pass_over(self, dead: str, is_sure: bool = True) -> None:
        """`is_sure`: call its others now, and not when it has not explained itself in time."""
        self.detector.forget(dead)
        life = self._lives[dead] = self._peers.incarnation(dead)
        self._unflushed[dead] = dict.fromkeys(self._others(dead))
        self._peers.close(dead, "it is gone")
        is_in = self.is_in
        self._lose(dead)
        if dead == self.parent:
            self.parent, self.is_in = None, is_in
        if is_sure:
            self._over[dead] = max(life, self._over.get(dead, 0))
            self._call_others(dead)
        else:
            self._unsure[dead] = None
            self.detector.silent(dead)

    def _call_others(self, dead: str) -> None:
        self._unsure.pop(dead, None)
        for name in self._others(dead):
            self._peers.open(name)
            self._meet(name)

    def _around(self, peer: Peer, message: Around) -> None:
        if message.dead == self._view.name:
            if self._over.get(peer.name, 0) < peer.incarnation or peer.name < self._view.name:
                self._step.end_life(Retire(f"{peer.name} has passed this life over"))
            return  # otherwise they have passed over each other, and the peer begins anew
        if message.dead in self._unsure:
            self._call_others(message.dead)
        if message.dead not in self._unflushed:
            if message.dead not in self._view.own.neighbours:
                raise PeerError(f"{message.dead} was no neighbour of this broker")
            self._pass_over(message.dead)
        if (peer.name, message.dead) not in self._met:  # it had just joined, and is new to this broker
            self._met[peer.name, message.dead] = None
            self.links.setdefault(peer.name, Successor(peer.name, ""))
            self._step.outcomes.append(Met(peer.name, message.dead))

    def _meet(self, name: str) -> None:
        """Both are next to a dead broker, and there is a session."""
        if not self._peers.is_up(name):
            return
        for dead in self._unflushed:
            if dead not in self._unsure and (name, dead) not in self._met and name in self._others(dead):
                self._met[name, dead] = None
                self._outbox.send(name, Around(dead))
                if name not in self.links:
                    other = self._view.place(name)
                    self.links[name] = Successor(name, other.address if other is not None else "")
                self._step.outcomes.append(Met(name, dead))

    def flushed(self, outcome: Met) -> None:
        """All that the dead one may have owed was sent."""
        self._outbox.send(outcome.name, Flushed(outcome.dead))

    def _flushed(self, peer: Peer, message: Flushed) -> None:
        self._unflushed.get(message.dead, {}).pop(peer.name, None)


class Copy:
    """A publication at this broker."""

    __slots__ = ("item", "lacking", "message", "no", "others")

    def __init__(self, no: int, item: KeptItem, message: MulticastMessage) -> None:
        self.no = no
        self.item = item
        self.message = message
        """As it goes on."""
        self.lacking = 0
        """Neighbours that were sent it and have not said that they have it."""
        self.others = 0
        """Those that have."""

    def done_but_for(self, peer: str) -> bool:
        """The peer counts as well: nothing is said of what it has not got."""
        return not self.lacking and not self.item.needed


class LinkCopies:
    def __init__(self, safe: Callable[[], None]) -> None:
        """`safe`: another broker has something now that it had not."""
        self._safe = safe
        self._has_news = False
        self._links: dict[str, CrossedLink[Copy]] = {}
        self._numbers = 0

    def begin(self, name: str) -> None:
        self._links[name] = CrossedLink(name)

    def has(self, name: str) -> bool:
        return name in self._links

    def make(self, item: KeptItem, message: MulticastMessage) -> Copy:
        self._numbers += 1
        return Copy(self._numbers, item, message)

    def came(self, name: str, copy: Copy) -> None:
        self._has_news = True
        self._links[name].received.add(copy)

    def sent(self, name: str, copy: Copy) -> None:
        copy.lacking += 1
        self._links[name].sent.add(copy)

    def hear(self, name: str, message: Progress) -> None:
        arrived, _ = self._links[name].hear(message)
        self._has_news = True
        for copy in arrived:
            copy.lacking -= 1
            copy.others += 1
        self._safe()

    def end(self, name: str) -> list[Copy]:
        """The neighbour is gone: what it may have owed to others."""
        link = self._links.pop(name, None)
        if link is None:
            return []
        self._has_news = True
        for copy in link.sent.after(link.acknowledged):
            copy.lacking -= 1
        owed = {copy.no: copy for lane in (link.sent, link.received) for copy in lane.after(lane.theirs)}
        return [owed[no] for no in sorted(owed)]

    @property
    def is_behind(self) -> bool:
        """Readers have taken something, and a neighbour that keeps it was not told."""
        lanes = [lane for link in self._links.values() for lane in (link.received, link.sent)]
        return any(lane.mine < lane.last and lane.entries[lane.mine + 1].done_but_for("") for lane in lanes)

    def news(self, everything: bool = False) -> list[tuple[str, Progress]]:
        """Return what neighbours are to be told at the end of a step: how much has arrived; or everything."""
        if not self._has_news and not everything:
            return []
        self._has_news = False
        reports = [(name, link.report()) for name, link in self._links.items()]
        return [(name, report) for name, report in reports if report is not None]
