"""Who is where, who is dead, and whom this broker is linked with: the tree within delta + 1 hops.

The tree never changes its shape: newcomers join as leaves, the dead keep their places, and are passed over until they
return. A broker is dead when its host says that its process is gone, when the failure detector suspects it, or when
somebody who passed it over says so (`MeetRequest`, which names the life that is dead: a later life is not, D7). A life
that was suspected and lives ends, and the broker begins anew. Those beyond it are called then, and are
links if they live; delta of them in a row can be passed over.

Whoever begins, for the first time or again, asks for what it needs (`recovery`). Here is what both have in common:
sessions, links, and what is known of others.
"""

from resprout.core.contract import EndCause, Heard, LinkDown, LinkUp, Locate, Outcome, Retire, Silent
from resprout.edge.messages import Successor
from resprout.overlay.messages import Life, Place
from resprout.stacks.peers import Outbox, Peer, Peers
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus, seen
from resprout_lab.blocks.detector import FailureDetector
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.tree import LinkEnded
from resprout_lab.delta.messages import HopPath, MeetRequest


class HopFound(Outcome, frozen=True):
    """There is a link with this one."""

    name: str
    is_operational: bool


class HopDied(Outcome, frozen=True):
    """This one is passed over from now on."""

    name: str


class KnownTree:
    def __init__(self, seat: BrokerSeat, step: Step, outbox: Outbox, view: Neighbourhood, suspect_us: int) -> None:
        self._seat = seat
        self._step = step
        self._outbox = outbox
        self.peers = Peers(step, outbox)
        self.detector = FailureDetector(step, suspect_us, self._suspect)
        self.view = view
        self.linked: dict[str, int] = {}
        """By name: the life with which there is a link."""
        self.dead: dict[str, int] = {}
        """By name: the life that is dead. It may have returned, and not be linked yet."""
        self.is_synced = False
        """This broker knows what it must to route messages by itself."""
        self.successors: tuple[Successor, ...] = ()
        """Where clients turn when this broker is gone, the nearest first."""
        self._early: dict[str, MeetRequest] = {}
        """Of brokers that are not known here yet."""

    # -- questions -----------------------------------------------------------------------------------------------------

    def is_dead(self, name: str) -> bool:
        return name in self.dead

    def path(self, name: str) -> HopPath:
        """From here to there, without this broker; empty when it is not in view."""
        return self.view.path(name)[1:]

    def is_same_way(self, one: str, other: str) -> bool:
        """Both lie in the same direction: a message that came from one goes to the other in the place of a dead broker,
        as that one would have sent it."""
        here, there = self.path(one), self.path(other)
        return bool(here and there) and here[0] == there[0]

    def life(self, name: str) -> int:
        """The latest that is known; 0 for none."""
        place = self.view.place(name)
        return max(self.linked.get(name, 0), place.incarnation if place is not None else 0)

    def frontier(self) -> dict[str, HopPath]:
        """The living that have none but dead before them, and the path to each."""
        return {name: self.path(name) for name in self.view.bypass(self.is_dead).hops}

    def status(self) -> StackStatus:
        """For people."""
        return StackStatus(
            parent=self._seat.parent,
            neighbours=tuple(self.linked),
            members=tuple([seen(one, one.name in self.dead) for one in self.view.places(self.view.nodes())]),
            silent=tuple([name for name in self.linked if not self.peers.is_heard(name)]),
        )

    def may_live(self, name: str, life: int) -> bool:
        """It stands near here, and this life of it is not known to be over."""
        if name == self._seat.name or self.view.place(name) is None:
            return False
        return self.dead.get(name, 0) < life >= self.life(name)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self.peers.get(name) is not None

    def up(self, event: LinkUp) -> None:
        name = event.peer
        self.detector.heard(name)
        if event.incarnation > self.linked.get(name, event.incarnation):
            self.pass_over(name, close=False)
        self._unlink(name)  # a session that begins anew has lost the old one
        if self.peers.came_up(name, event.incarnation, event.room) is None:
            return
        if self.dead.get(name, 0) >= event.incarnation:  # it lives, and was passed over all the same
            self._outbox.send(name, MeetRequest((Life(name, event.incarnation),), ()))
        else:
            self.greet(name)

    def greet(self, name: str) -> None:
        """A session begins."""
        self.meet(name)

    def down(self, event: LinkDown) -> None:
        name, was_linked = event.peer, event.peer in self.linked
        self.peers.went_down(name)
        if was_linked and event.cause is EndCause.RESTARTED:
            self.pass_over(name, close=False)
        elif was_linked:
            self._unlink(name)
            self.peers.open(name)

    def silent(self, event: Silent) -> None:
        name = event.peer
        self.peers.lost(name, event.refused)
        if event.refused and name not in self.dead and self.view.path(name):
            self.pass_over(name)
        elif not event.refused and name not in self.dead and self.view.path(name):
            self.peers.open(name)  # whoever opened the session may be gone: its host is asked
            self.detector.silent(name)

    def heard(self, event: Heard) -> None:
        self.peers.heard(event.peer)
        self.detector.heard(event.peer)

    def _suspect(self, name: str) -> None:
        if name not in self.dead and self.view.path(name):
            self.pass_over(name)

    def cut_off(self, name: str, reason: str) -> None:
        self.peers.close(name, reason)
        self._unlink(name)
        if name in self.frontier():
            self.peers.open(name)

    def linked_peer(self, name: str) -> Peer | None:
        return self.peers.find(name) if name in self.linked else None

    # -- the dead ------------------------------------------------------------------------------------------------------

    def pass_over(self, name: str, close: bool = True) -> None:
        """It is dead. Those beyond it are called, and so is the dead one itself: it may return."""
        self.dead[name] = max(self.life(name), self.dead.get(name, 0))
        self.linked.pop(name, None)
        if close:  # what it has said and is still on its way must not come after what goes around it
            self.peers.close(name, "it is gone")
        self.peers.open(name)
        self._step.outcomes.append(HopDied(name))
        self.look_beyond()

    def look_beyond(self) -> None:
        """Whoever is next past the dead is called, and met."""
        for name in self.frontier():
            if name not in self.linked:
                self.peers.open(name)
                self.meet(name)

    # -- links ---------------------------------------------------------------------------------------------------------

    def link(self, name: str, is_operational: bool) -> None:
        self.linked[name] = self.peers.incarnation(name)
        self.dead.pop(name, None)
        self._step.outcomes.append(HopFound(name, is_operational))

    def _unlink(self, name: str) -> None:
        if self.linked.pop(name, None) is not None:
            self._step.outcomes.append(LinkEnded(name))  # it lives, as far as is known

    def meet(self, name: str) -> None:
        """If it is next to this broker, past none but dead. One that has begun a new life has to ask first."""
        life = self.peers.incarnation(name)
        if not life or not self.is_synced or name in self.linked or life != self.life(name):
            return
        if name in self.frontier():
            self._say_met(name)
            self.link(name, is_operational=True)

    def met(self, peer: Peer, message: MeetRequest) -> None:
        """A stale word about the dead does no harm: it names a life, and the one that is linked here is a later one.
        Whoever was passed over itself has missed messages, and begins another life."""
        if any(life.name == self._seat.name and life.incarnation >= self._seat.incarnation for life in message.between):
            if self.dead.get(peer.name, 0) < peer.incarnation or peer.name < self._seat.name:
                self._step.end_life(Retire(f"{peer.name} has passed this life over"))
            return  # otherwise they have passed over each other, and the peer begins anew
        if self.is_synced and not self.path(peer.name):
            self.learn(message.places)
        if not self.is_synced or not self.path(peer.name):
            self._early[peer.name] = message
            return
        for life in message.between:
            if self.path(life.name) and life.incarnation >= max(self.life(life.name), self.dead.get(life.name, 0) + 1):
                self.pass_over(life.name)
        if peer.name not in self.linked:
            self._say_met(peer.name)
            self.link(peer.name, is_operational=True)

    def _say_met(self, name: str) -> None:
        between = [Life(one, self.dead[one]) for one in self.path(name)[:-1] if one in self.dead]
        places = self.view.places([life.name for life in between])
        self._outbox.send(name, MeetRequest(tuple(between), (self.view.own, *places)))

    # -- what is known -------------------------------------------------------------------------------------------------

    def learn(self, places: tuple[Place, ...]) -> None:
        """Somebody has joined, or is back."""
        for place in self.view.learn(places):
            if place.address:
                self._step.out.append(Locate(place.name, place.address))
            if self.dead.get(place.name, place.incarnation) < place.incarnation:
                del self.dead[place.name]
        self._find_successors()
        self._look_again()
        self.look_beyond()

    def move(self, neighbours: tuple[str, ...]) -> None:
        """This broker stands next to these."""
        if neighbours != self.view.own.neighbours:
            self.view.stand_next_to(neighbours)
            self._find_successors()

    def _find_successors(self) -> None:
        places = self.view.places(self.view.nodes())
        self.successors = tuple([Successor(place.name, place.address) for place in places])

    def _look_again(self) -> None:
        early, self._early = self._early, {}
        for name, message in early.items():
            if (peer := self.peers.find(name)) is not None:
                self.met(peer, message)
