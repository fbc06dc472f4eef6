"""The tree, and whom a broker talks to in it: its *active connections* (section 3.2.3 of the thesis).

A broker joins the parent that it was given, and from then on it has its place for ever: nobody repairs the tree. On the
path to everybody within f + 1 hops it talks to the first that is available. A broker is unavailable (`dead`) when its
host says that its process is gone, when the session with it ends, and when the failure detector suspects it; those
behind it are called. It is available again when it is heard.

A suspicion may be false, and the two ends of a broken link suspect each other while all others hear both. So a broker
also talks to everybody who does not hear those between them (`Unavailable`).

A broker that starts again with what it had on disk has its place at once, and calls those that it talks to; one that
has lost its disk is a stranger with a known name, and is not taken back.

The safe neighbourhood of one broker: the tree within 2f + 1 hops, and what the algorithm asks of it.

Those within f + 1 hops are the *reach*: the broker may talk to each of them, and gives every message a number for each
of them that lies ahead. A *branch* is the direction in which somebody lies, by the name of the neighbour there.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from resprout.core.contract import Heard, LinkDown, LinkUp, Locate, Outcome, ProtocolMessage, SetTimer, Silent, Timer
from resprout.edge.messages import Successor
from resprout.overlay.messages import Place
from resprout.stacks.desk import Desk, Handler
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.detector import FailureDetector
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.tree import Join, MappedTree, PlacesNear
from resprout_lab.locamu.messages import LOCAMU_MESSAGES, MissingRequest, Unavailable


class SafeNeighbourhood(Neighbourhood):
    def __init__(self, own: Place, faults: int) -> None:
        self.faults = faults
        super().__init__(own, 2 * faults + 1)

    def _look(self, changed: set[str]) -> list[Place]:
        news = super()._look(changed)
        self.reach = self.nodes(self.faults + 1)
        """Everybody within f + 1 hops, nearest first, and how far away."""
        self._near_to: dict[tuple[int, str, str], bool] = {}
        self._targets: dict[str | None, tuple[str, ...]] = {}
        self._shared: dict[str, frozenset[str]] = {}
        self._ways: dict[str, tuple[str, ...]] = {}
        return news

    def way_from(self, name: str) -> tuple[str, ...]:
        """The path from there to here, this broker left out; empty when it is not in view."""
        if name not in self._ways:
            self._ways[name] = tuple(reversed(self.path(name)[1:]))
        return self._ways[name]

    def is_within(self, hops: int, one: str, other: str) -> bool:
        key = (hops, one, other)
        if (known := self._near_to.get(key)) is None:
            known = self._near_to[key] = 0 < len(self.path_between(one, other)) <= hops + 1
        return known

    def targets(self, source: str | None) -> tuple[str, ...]:
        """Everybody in reach that lies ahead of a message from this branch; None: it was published here."""
        if source not in self._targets:
            self._targets[source] = tuple([name for name in self.reach if self.branch(name) != source])
        return self._targets[source]

    def shared(self, name: str) -> frozenset[str]:
        """Those in the safe neighbourhood of both: the other one is told of nobody else."""
        if name not in self._shared:
            known = (self.name, *self.nodes())
            self._shared[name] = frozenset(one for one in known if self.is_within(self.hops, name, one))
        return self._shared[name]


AGAIN_US: Final = 1_000_000


class TalkBegan(Outcome, frozen=True):
    """There is a session with somebody in reach."""

    name: str


class TalkAgain(Timer, frozen=True):
    """When to call a broker again that was cut off."""

    name: str


class BeginAnewDue(Timer, frozen=True):
    """When to end the session with a broker of which messages were dropped, so that it sends them again."""

    name: str


class ActiveChanged(Outcome, frozen=True):
    """The active connections, or the tree, are others than before."""


class SafeTree(MappedTree):
    def __init__(self, seat: BrokerSeat, step: Step, outbox: Outbox, near: SafeNeighbourhood, suspect_us: int) -> None:
        self.near = near
        super().__init__(seat, step, outbox, near)
        self.detector = FailureDetector(step, suspect_us, self._count_out)
        self.dead: dict[str, None] = {}
        """Unavailable, as far as this broker knows by itself."""
        self._dead_beyond: dict[str, tuple[str, ...]] = {}
        """By who has said so: others in reach, farther away."""
        self._callers: dict[str, tuple[str, ...]] = {}
        """Those that do not hear anybody between them and this broker, and who is between."""
        self._told_dead: dict[str, tuple[str, ...]] = {}
        self._cut: dict[str, None] = {}
        """Those that broke the rules just now."""
        self.active: dict[str, tuple[str, ...]] = {}
        """Whom this broker talks to, and the dead before each."""
        self.early: dict[str, MissingRequest] = {}
        """Of brokers of which this one did not know where they stand when they asked."""
        self._refused: dict[str, None] = {}
        """Those of which messages were dropped in this session."""
        self.is_unheard_of: Callable[[str], bool] = lambda name: True
        """Nothing was ever processed of it or by it: whoever comes under its name may begin."""

    def desks(self, handlers: Mapping[type, Handler]) -> tuple[Desk, ...]:
        early: dict[type, Handler] = dict.fromkeys(LOCAMU_MESSAGES, self._not_yet)
        return *super().desks({Unavailable: self._heard_of, **handlers}), Desk(self._peers.find, early)

    def is_dead(self, name: str) -> bool:
        return name in self._all_dead()

    def cannot_reach(self, sender: str, target: str) -> bool:
        """This broker does not hear the sender, or the target does not."""
        return sender in self.dead or sender in self._callers.get(target, ())

    def _all_dead(self) -> dict[str, None]:
        """Those included that others have named."""
        return dict.fromkeys((*self.dead, *[one for names in self._dead_beyond.values() for one in names]))

    # -- places --------------------------------------------------------------------------------------------------------

    @property
    def places(self) -> tuple[Place, ...]:
        """Everything that is known, this broker's own place first: what its next life has to know."""
        return self.near.places((self.near.name, *self.near.nodes()))

    def restore(self, places: Iterable[Place]) -> None:
        """This broker had its place in an earlier life."""
        own, *others = places
        self._spread([*self._stand_next_to(*own.neighbours), *self.near.learn(others)])
        self.is_in = self.is_in or bool(own.neighbours)
        self._look()

    def _stand_next_to(self, *names: str) -> list[Place]:
        return self.near.stand_next_to((*self.near.own.neighbours, *names))

    def _link(self, name: str, address: str) -> None:
        if address:
            self._step.out.append(Locate(name, address))
        news = self._stand_next_to(name)
        self._begin(name)
        self._spread(news)
        self._look()

    def _told(self, peer: Peer, message: PlacesNear) -> None:
        if news := self.near.learn(message.places):
            self._spread(news)
            for place in news:
                if place.name not in self.links:
                    self._meet(place.name)
            self._look()

    # -- sessions ------------------------------------------------------------------------------------------------------

    def up(self, event: LinkUp) -> None:
        super().up(event)
        self.detector.heard(event.peer)
        self._meet(event.peer)

    def heard(self, event: Heard) -> None:
        super().heard(event)
        if self.detector.heard(event.peer) and event.peer in self.links:
            self.dead.pop(event.peer, None)
            self._look()

    def _meet(self, name: str) -> None:
        """If there is a session with it, and it is in reach."""
        if name in self.near.reach and name not in self._cut and self._peers.is_up(name):
            self._begin(name)
            self._look()

    def _begin(self, name: str) -> None:
        self.dead.pop(name, None)
        self.links[name] = Successor(name, "")
        self._tell_everything(name)
        self._step.outcomes.append(TalkBegan(name))

    def down(self, event: LinkDown) -> None:
        super().down(event)
        self.detector.forget(event.peer)
        self._count_out(event.peer)

    def silent(self, event: Silent) -> None:
        self._peers.lost(event.peer, event.refused)
        if event.peer not in self.near.reach:
            super().silent(event)
        elif event.refused:
            self.detector.forget(event.peer)
            self._count_out(event.peer)
        else:
            self._peers.open(event.peer)  # whoever opened the session may be gone: its host is asked
            if event.peer not in self.dead:
                self.detector.silent(event.peer)

    def cut_off(self, name: str, reason: str) -> None:
        """Not for ever: whoever has a place has it. But whoever breaks the rules again has to wait."""
        self._peers.close(name, reason)
        self._lose(name)
        self._count_out(name)
        self._cut[name] = None
        self._step.out.append(SetTimer(TalkAgain(name), self._step.now_us + AGAIN_US))

    def begin_anew(self, name: str) -> None:
        """Messages of it were dropped, because too many wait here: it sends them again in another session."""
        if name not in self._refused:
            self._refused[name] = None
            self._step.out.append(SetTimer(BeginAnewDue(name), self._step.now_us + AGAIN_US))

    def begin_anew_due(self, timer: BeginAnewDue) -> None:
        if timer.name in self._refused:
            self.cut_off(timer.name, "too much that cannot be processed waits here")

    def talk_again(self, timer: TalkAgain) -> None:
        name = timer.name
        self._cut.pop(name, None)
        if self._peers.is_up(name):
            self._meet(name)
        elif name in self.near.reach or name == self.parent:
            self._peers.open(name)

    def _lose(self, name: str) -> None:
        """A place is never lost, and this broker stays in the tree."""
        is_in = self.is_in
        for known in (self.early, self._dead_beyond, self._told_dead, self._callers, self._refused):
            known.pop(name, None)
        super()._lose(name)
        self.is_in = is_in

    def _count_out(self, name: str) -> None:
        if name in self.near.reach and name not in self.dead:
            self.dead[name] = None
            self._look()

    def _look(self) -> None:
        self.active = self._find_active()
        self._tell_dead()
        for name in self.active:
            if not self._peers.is_up(name):
                self._peers.open(name)
        self._step.outcomes.append(ActiveChanged())

    def _find_active(self) -> dict[str, tuple[str, ...]]:
        return self._callers | self.near.bypass(lambda name: name in self.dead, self.near.faults + 1).hops

    # -- what others hear ----------------------------------------------------------------------------------------------

    def _heard_of(self, peer: Peer, message: Unavailable) -> None:
        near, between = self.near, self.near.path(peer.name)[1:-1]
        branch = near.branch(peer.name)
        names = [name for name in message.names if name in near.reach and near.branch(name) == branch]
        beyond, known = tuple([name for name in names if name not in between]), self._dead_beyond.get(peer.name, ())
        self._dead_beyond[peer.name] = beyond
        self._callers.pop(peer.name, None)
        if between and all(name in names for name in between):
            self._callers[peer.name] = between
        if beyond != known or self._find_active() != self.active:
            self._look()

    def _tell_dead(self) -> None:
        """Tell each active connection of those in other directions, for which it could wait, and of those between."""
        dead = self._all_dead()
        for name in self.active:
            between = self.near.path(name)[1:-1]
            news = tuple(
                [one for one in dead if self.near.branch(one) != self.near.branch(name)]
                + [one for one in between if one in self.dead]
            )
            if name in self.links and news != self._told_dead.get(name, ()):
                self._told_dead[name] = news
                self._outbox.send(name, Unavailable(news))

    # -- joining -------------------------------------------------------------------------------------------------------

    def _asked(self, peer: Peer, message: Join) -> None:
        if peer.name in self.near.own.neighbours:
            self._lose(peer.name)
            if not self.is_unheard_of(peer.name):
                self._step.note("stranger", f"{peer.name} has returned without what was on its disk")
                self._count_out(peer.name)
                return
        super()._asked(peer, message)

    def _not_yet(self, peer: Peer, message: ProtocolMessage) -> None:
        """Of one that knows this broker, while this one does not know where it stands."""
        if isinstance(message, MissingRequest):
            self.early[peer.name] = message
