"""The neighbours of a broker: their sessions, and the publications pushed to them.

`OverlaySessions` runs HyParView on sessions. A broker whose host reports the end of its process is gone. A silent
broker is called, and given up if it is not heard for a while: a mistake costs a neighbour, and nothing that others rely
on.

`Pushing` keeps what finds no room in the outbox, up to a bound for each link. A publication of a local client counts
against that client while it waits, so a client that publishes more than the links take is held back. What neighbours
brought counts against nobody: in an overlay with cycles, brokers that hold each other back could deadlock. Beyond the
bound it is dropped, and the neighbour is told what there is when the link is free again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from resprout.core.contract import Close, EndCause, LinkDown, LinkUp, Outcome, ProtocolMessage, Silent
from resprout.edge.messages import Successor
from resprout.stacks.desk import Desk
from resprout.stacks.peers import Outbox, Peer
from resprout.stacks.shell import Step, Table
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import MemberSeen, StackStatus
from resprout_lab.blocks.mesh import IDLE_US, MeshSessions, SilentTooLong
from resprout_lab.blocks.retention import KeptItem, Retention
from resprout_lab.gossip.broadcast import Gossiped
from resprout_lab.gossip.hyparview import AskedTooLong, HyParView, ShuffleDue
from resprout_lab.gossip.options import GossipOptions

SUCCESSORS_MAX: Final = 16
"""That clients are told of: one of them must live when this broker does not, though half of all died with it."""


class OverlaySessions(MeshSessions):
    """Looks after the sessions with other brokers (`BrokerSessions`); HyParView speaks through it (`Wires`)."""

    def __init__(
        self,
        seat: BrokerSeat,
        options: GossipOptions,
        step: Step,
        outbox: Outbox,
        rng: Random,
        ended: Callable[[str], None],
    ) -> None:
        """`ended`: a session is over."""
        super().__init__(seat, options.silent_us, step, outbox)
        self._ended = ended
        self.overlay = HyParView(self.me, self._contacts, options.views, rng, self)
        self.knows_somebody = bool(self._contacts)
        self.successors: tuple[Successor, ...] = ()
        """Where clients turn when this broker is gone."""
        self.timers: Table = {
            ShuffleDue: self._shuffle_due,
            AskedTooLong: self.overlay.asked_too_long,
            SilentTooLong: self._silent_too_long,
        }

    def find(self, name: str) -> Peer | None:
        """A neighbour."""
        return self._peers.find(name) if name in self.overlay.neighbours else None

    def status(self, is_settled: bool) -> StackStatus:
        """For people."""
        views = self.overlay.views
        known = (*views.active.values(), *views.passive.values())
        return StackStatus(
            is_settled,
            neighbours=tuple(self.overlay.neighbours),
            members=tuple([MemberSeen(one.name, address=one.address) for one in known]),
            silent=tuple(self._silent),
        )

    def desk(self) -> Desk:
        """What any broker may say."""
        return Desk(self._peers.find, dict.fromkeys(self.overlay.handlers, self._hear))

    def _hear(self, peer: Peer, message: ProtocolMessage) -> None:
        self.overlay.hear(peer.name, message)
        if len(self.successors) < SUCCESSORS_MAX:
            self._succeed(())

    def leave(self) -> None:
        self.overlay.leave()

    # -- what HyParView wants (`Wires`) --------------------------------------------------------------------------------

    def tell(self, outcome: Outcome) -> None:
        super().tell(outcome)
        self._succeed(self.overlay.neighbours)

    def _succeed(self, first: Iterable[str]) -> None:
        """Clients are told of these, then of those that they were told of and that are not lost, and of others that are
        known if there are few. Passive views change all the time, and clients need not hear of it."""
        views = self.overlay.views
        told = [successor.name for successor in self.successors if successor.name not in views.lost]
        known = {successor.name: successor.address for successor in self.successors}
        known |= {name: member.address for name, member in (*views.passive.items(), *views.active.items())}
        names = list(dict.fromkeys([*first, *told, *views.passive]))[:SUCCESSORS_MAX]
        self.successors = tuple([Successor(name, known[name]) for name in names])

    # -- sessions (`BrokerSessions`) -----------------------------------------------------------------------------------

    def up(self, event: LinkUp) -> None:
        name = event.peer
        self._is_heard(name)
        if name in self.overlay.neighbours:  # a session that begins anew has lost the old one
            self._ended(name)
            self.overlay.unreachable(name, lives=True)
        if self._peers.came_up(name, event.incarnation, event.room) is None:
            self._step.out.append(Close(name, f"{self._seat.name} takes no more brokers"))

    def down(self, event: LinkDown) -> None:
        self._lose(event.peer, "its session is over", lives=event.cause is not EndCause.LOST)

    def silent(self, event: Silent) -> None:
        name = event.peer
        if event.refused or name not in self.overlay.neighbours:
            self._lose(name, "it is not heard", lives=False)
        else:
            self._is_silent(name)

    def cut_off(self, name: str, reason: str) -> None:
        self._peers.close(name, reason)
        self._is_heard(name)
        self._ended(name)
        self.overlay.forget(name)

    def _lose(self, name: str, reason: str, lives: bool) -> None:
        self._peers.close(name, reason)
        self._is_heard(name)
        self._ended(name)
        self.overlay.unreachable(name, lives)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _shuffle_due(self, timer: ShuffleDue) -> None:
        self.overlay.shuffle_due(timer)
        self._peers.keep_only(self.overlay.needed, IDLE_US)
        self._succeed(())


class _Waiting:
    __slots__ = ("bytes", "is_behind", "items")

    def __init__(self) -> None:
        self.items: deque[KeptItem | None] = deque()
        """Of what waits; None for what counts against nobody."""
        self.bytes = 0
        self.is_behind = False
        """Something was left out."""


class Pushing:
    def __init__(self, outbox: Outbox, kept: Retention, bytes_max: int, caught_up: Callable[[str], None]) -> None:
        """`caught_up`: there is room again for a neighbour for whom something was left out."""
        self._outbox = outbox
        self._kept = kept
        self._bytes_max = bytes_max
        self._caught_up = caught_up
        self._waiting: dict[str, _Waiting] = {}

    def push(self, name: str, message: Gossiped, item: KeptItem | None) -> None:
        """`item`: what is counted, of a local client."""
        waiting = self._waiting.get(name)
        if waiting is not None and waiting.bytes > self._bytes_max and item is None:
            waiting.is_behind = True
            return
        self._outbox.send(name, message)
        if self._outbox.waiting(name):
            waiting = self._waiting.setdefault(name, _Waiting())
            waiting.items.append(item)
            waiting.bytes += message.cost
            if item is not None:
                self._kept.keep(item)

    def writable(self, name: str, room: int) -> None:
        left = self._outbox.writable(name, room)
        waiting = self._waiting.get(name)
        if waiting is None:
            return
        for message in left:
            waiting.bytes -= message.cost
            self._let_go(waiting.items.popleft())
        if not waiting.items:
            del self._waiting[name]
            if waiting.is_behind:
                self._caught_up(name)

    def end(self, name: str) -> None:
        """The session is over, and what waited for it lost."""
        waiting = self._waiting.pop(name, None)
        for item in waiting.items if waiting is not None else ():
            self._let_go(item)
        self._kept.forget(name)

    def _let_go(self, item: KeptItem | None) -> None:
        if item is not None:
            self._kept.let_go(item)
