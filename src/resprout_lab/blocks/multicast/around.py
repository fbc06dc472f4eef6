"""The tree of a causal multicast, with a bypass around a dead broker: its oldest neighbour takes its place.

Every broker knows the tree within two hops (`blocks.neighbourhood`): brokers tell their neighbours the names and
addresses of their own neighbours. A broker is passed over when its host reports that its process is gone, when the
failure detector suspects it, or when another neighbour of it says so (`Around`). Its oldest neighbour (its parent,
unless it was the root) becomes its *substitute*. All other neighbours connect to the substitute, so the links form a
tree again. They send it everything that the dead broker may have owed to others (`copies`), and then `Flushed`. When
all have done so, the substitute has passed on what each of them lacks, and answers `Flushed`.

A living broker that was suspected is told so, and begins another life. It joins like a newcomer, below the parent that
it was given.
"""

from collections.abc import Mapping

from resprout.core.contract import EndCause, Heard, LinkDown, LinkUp, Outcome, Retire, Silent
from resprout.core.errors import PeerError
from resprout.edge.messages import Successor
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.detector import FailureDetector
from resprout_lab.blocks.multicast.messages import Around, Flushed
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.tree import MappedTree, PlacesNear


class Met(Outcome, frozen=True):
    """A link around a dead broker is up: send over it what the dead broker may have owed."""

    name: str
    dead: str


class AllFlushed(Outcome, frozen=True):
    """Everything that the dead broker may have owed has arrived."""

    dead: str


class BypassTree(MappedTree):
    def __init__(self, seat: BrokerSeat, step: Step, outbox: Outbox, suspect_us: int) -> None:
        super().__init__(seat, step, outbox, Neighbourhood(seat.first_place, 2))
        self.detector = FailureDetector(step, suspect_us, self._suspect)
        self._over: dict[str, int] = {}
        """Latest life that was passed over, by name."""
        self._lives: dict[str, int] = {}
        """Life that was passed over, or that ended its session, by name."""
        self._unsure: dict[str, None] = {}
        """Brokers that ended their session themselves: they live, and may have passed this broker over."""
        self._unheard: dict[str, None] = {}
        """Children that may not know yet that they are in the tree. Other brokers are not told of them."""
        self._unflushed: dict[str, dict[str, None]] = {}
        """Brokers on links around a dead broker that have not sent everything yet, by dead broker."""
        self._unanswered: dict[str, dict[str, None]] = {}
        """Brokers to which this broker, as substitute, has not sent `Flushed` yet, by dead broker."""
        self._substitutes: dict[tuple[str, int], str] = {}
        """Substitutes, by name and life of the dead broker."""
        self._returned: dict[str, None] = {}
        """Brokers that were passed over and have begun another life."""
        self._met: dict[tuple[str, str], None] = {}
        """Pairs (neighbour, dead broker) for which both ends know that they are linked."""

    def others(self, dead: str) -> list[str] | None:
        """Return the brokers linked around a dead broker, as far as known here; None unless it is passed over."""
        return self._others(dead) if self.is_dead(dead) else None

    def is_substitute(self, dead: str) -> bool:
        return self._substitutes.get((dead, self.last_life(dead))) == self._view.name

    def substitute(self, name: str, life: int) -> Successor | None:
        """Return where clients of this life of a neighbour continue; None for here, or if it is not known."""
        found = self._substitutes.get((name, life), self._view.name)
        return None if found == self._view.name else self.links.get(found)

    def is_bypassed(self, dead: str) -> bool:
        """Whether all neighbours of a dead broker are linked and have sent what it may have owed."""
        return not self._unflushed.get(dead)

    def is_around(self, name: str) -> bool:
        """Whether this broker is linked with it around a dead broker."""
        return any(one == name for one, _ in self._met)

    def is_uncertain(self, name: str) -> bool:
        """Whether it is linked around a dead broker, and has not sent everything that this one may have owed."""
        return any(self._unflushed.get(dead) for one, dead in self._met if one == name)

    def is_replaced(self, name: str, life: int) -> bool:
        """Whether this life of a broker is over, and everything that it may have owed has come or it has begun another
        life."""
        is_over = name in self._unflushed or 0 < life < self._peers.incarnation(name)
        return is_over and not self._unflushed.get(name)

    def is_dead(self, name: str) -> bool:
        return name in self._unflushed and name not in self._returned

    def last_life(self, name: str) -> int:
        """Return the life in which it was passed over."""
        return self._lives.get(name, 0)

    def is_near(self, name: str) -> bool:
        return name in self.links or self.is_dead(name)

    def desks(self, handlers: Mapping[type, Handler]) -> tuple[Desk, ...]:
        return Desk(self._peers.find, {Around: self._around}), *super().desks({Flushed: self._flushed, **handlers})

    # -- who is where --------------------------------------------------------------------------------------------------

    def _link(self, name: str, address: str) -> None:
        super()._link(name, address)
        self._unsure.pop(name, None)
        if name in self._unflushed:
            self._returned[name] = None
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
        if event.incarnation <= self._over.get(event.peer, 0):  # it lives, although it was passed over
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
        self._peers.open(name)  # it may live, and must be told

    def silent(self, event: Silent) -> None:
        self._peers.lost(event.peer, event.refused)
        if event.refused and event.peer in self.links:
            self._pass_over(event.peer)
        elif event.refused and event.peer == self.parent and not self.is_in:
            self._ask_another()
        elif event.peer in self.links or (event.peer == self._seat.parent == self.parent and not self.is_in):
            self._peers.open(event.peer)  # the broker that opened the session may be gone: ask its host
            self.detector.silent(event.peer)
        else:
            super().silent(event)

    def _ask_another(self) -> None:
        """Ask another broker for a parent, because the given one died before this broker was in the tree."""
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
        place, own = self._view.place(dead), self._view.name
        neighbours = () if place is None else place.neighbours
        if not neighbours or neighbours[0] == own:
            return [name for name in neighbours if name != own]
        return [neighbours[0]]

    def _pass_over(self, dead: str, is_sure: bool = True) -> None:
        """Pass over a dead broker. `is_sure`: connect to its other neighbours now; otherwise only if it does not
        explain itself in time."""
        self.detector.forget(dead)
        life = self._lives[dead] = self._peers.incarnation(dead)
        others = self._others(dead)
        self._unflushed[dead] = dict.fromkeys(others)
        place = self._view.place(dead)
        self._substitutes[dead, life] = place.neighbours[0] if place is not None and place.neighbours else ""
        self._returned.pop(dead, None)
        self._met = {pair: None for pair in self._met if pair[1] != dead}
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
            return  # otherwise both have passed each other over, and the peer begins a new life
        if message.dead in self._unsure:
            self._call_others(message.dead)
        if message.dead not in self._unflushed:
            if message.dead not in self._view.own.neighbours:
                raise PeerError(f"{message.dead} was no neighbour of this broker")
            self._pass_over(message.dead)
        if (peer.name, message.dead) not in self._met:  # it has just joined, and is new to this broker
            self._met[peer.name, message.dead] = None
            self._unflushed[message.dead].setdefault(peer.name)
            self.links.setdefault(peer.name, Successor(peer.name, ""))
            self._step.outcomes.append(Met(peer.name, message.dead))

    def _meet(self, name: str) -> None:
        """Link with another neighbour of a dead broker, once there is a session."""
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

    def owed_sent(self, outcome: Met) -> None:
        """Note that everything that the dead broker may have owed was sent over this link."""
        if self._unflushed.get(outcome.dead) and self.is_substitute(outcome.dead):
            self._unanswered.setdefault(outcome.dead, {})[outcome.name] = None
        else:
            self._outbox.send(outcome.name, Flushed(outcome.dead))

    def _flushed(self, peer: Peer, message: Flushed) -> None:
        waited_for = self._unflushed.get(message.dead, {})
        if waited_for.pop(peer.name, 0) is None and not waited_for:
            self._step.outcomes.append(AllFlushed(message.dead))

    def answer(self, outcome: AllFlushed) -> None:
        """Send `Flushed` to the others, because everything that came was passed on."""
        for name in self._unanswered.pop(outcome.dead, {}):
            if name in self.links:
                self._outbox.send(name, Flushed(outcome.dead))
