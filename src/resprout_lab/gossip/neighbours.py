"""The overlay on sessions: whom HyParView speaks to, and who cannot be reached.

A broker whose host says that its process is gone is gone. One that falls silent, for whatever reason, is called, and
given up if it is not heard for a while: to be wrong about it costs a neighbour, and nothing that anybody relies on.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from resprout.core.contract import Close, EndCause, LinkDown, LinkUp, Outcome, ProtocolMessage, Silent
from resprout.edge.messages import Successor
from resprout.stacks.shell.desk import Desk
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.peers import Peer
from resprout.stacks.shell.shell import Table
from resprout.stacks.shell.step import Step
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import MemberSeen, StackStatus
from resprout_lab.blocks.mesh import IDLE_US, MeshSessions, SilentTooLong
from resprout_lab.gossip.hyparview.membership import HyParView, ShuffleDue
from resprout_lab.gossip.hyparview.requests import AskedTooLong
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
