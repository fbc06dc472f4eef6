"""One broker: its parts, and who hears what. What it shares with others is in `stacks.shell`."""

import random
from typing import Any

from resprout.core.contract import (
    CancelTimer,
    EndCause,
    Heard,
    LinkDown,
    LinkUp,
    ProtocolMessage,
    Retire,
    SetTimer,
    Silent,
    Timer,
)  # fmt: skip
from resprout.core.errors import PeerError
from resprout.edge.broker.ghosts import GhostOver
from resprout.spread.messages import InterestConfirmed
from resprout.stacks.shell.desk import Desk
from resprout.stacks.shell.readers import readers_here
from resprout.stacks.shell.shell import Shell
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus, TopicReaders
from resprout_lab.blocks.asking import Asking
from resprout_lab.blocks.clients import ClientDesk, ReceiptsDue
from resprout_lab.blocks.sessions import SessionEvents
from resprout_lab.blocks.tree import LinkBegan
from resprout_lab.ginger.account import status_of
from resprout_lab.ginger.clients import GingerClients, SettleDue
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.intake import Intake
from resprout_lab.ginger.messages import (
    Metadata,
    Passed,
    Progress,
    TotalAck,
    TotalLock,
    TotalProcessed,
    TotalRequest,
    TreeViewSeen,
    TreeViewUpdate,
)  # fmt: skip
from resprout_lab.ginger.options import GingerOptions
from resprout_lab.ginger.totals import GingerTotals
from resprout_lab.ginger.tree import Tree

EARLY_MAX = 10_000
"""Messages that may come on a link before its other end is told of it."""


class SuspectDue(Timer, frozen=True):
    """When to declare a silent broker dead."""

    peer: str


class GingerBroker(Shell):
    def __init__(self, seat: BrokerSeat, options: GingerOptions, rng: random.Random) -> None:
        self.seat = seat
        core = self.core = GingerCore(seat.name, options)
        self.totals = GingerTotals(core)
        self.clients = GingerClients(core, self.totals, seat.incarnation)
        self.intake = Intake(core, self.totals)
        self.view = view = core.view
        self.tree = tree = Tree(seat, core, self.totals, self.clients, self.intake)
        self._early: dict[str, list[Any]] = {}
        if seat.address:
            view.addresses[seat.name] = seat.address
        asking = Asking(core, core.sessions, core.wishes, self._say)
        desk = ClientDesk(
            core,
            core.sessions,
            publish=self.clients.publish,
            is_ready=lambda: tree.is_settled and (core.is_root or bool(view.successors)),
            door=self.clients.door,
            welcome=self.clients.serve,
            successors=lambda: view.successors,
            left=self.clients.leave,
            news=core.report,
            receipts_us=options.ack_delay_us,
        )
        sessions = SessionEvents(core, desk, self, core.writable)
        super().__init__(
            core,
            events=sessions.table,
            desks=(desk.desk(), Desk(core.peers.find, tree.handlers), self._neighbours(asking)),
            cut_off=sessions.cut_off,
            timers={
                **tree.timers,
                ReceiptsDue: desk.receipts_due,
                SuspectDue: lambda timer: tree.declare(timer.peer),
                GhostOver: self.clients.dismiss,
                SettleDue: self.clients.settle,
            },
            outcomes={**tree.outcomes, LinkBegan: self._linked},
            at_end=(
                self._go_on,
                (view.newcomers, tree.admit),
                (core.wishes.outbound, asking.ask),
                desk.serve,
                view.catch_up,
                (core.wishes.outbound, asking.ask),
                desk.tell,
                lambda: core.push_back(core.out),
            ),
        )

    def begin(self) -> None:
        self.tree.start()
        self.view.refresh()

    def status(self) -> StackStatus:
        return status_of(self.core, self.tree)

    def readers(self, topic: str) -> TopicReaders:
        return readers_here(self.core.sessions, topic)

    def _neighbours(self, asking: Asking) -> Desk:
        return Desk(
            self.core.open_link,
            {
                Metadata: self.intake.hear,
                Passed: self.intake.behind(self.core.hear_passed),
                TotalRequest: self.intake.behind(lambda link, message: self.totals.request(message)),
                TotalProcessed: self.intake.behind(self.totals.hear_processed),
                Progress: self.core.hear_progress,
                TotalLock: self.totals.hear_lock,
                TotalAck: self.totals.hear_ack,
                TreeViewUpdate: lambda link, message: self.view.hear(link.name, message),
                TreeViewSeen: lambda link, message: self.view.hear_seen(link.name, message),
                **asking.handlers,
            },
            strange=self._keep_early,
        )

    # -- sessions with brokers (`BrokerSessions`) ----------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self.core.peers.is_up(name) or name in self.core.links

    def up(self, event: LinkUp) -> None:
        name, tree, peers = event.peer, self.tree, self.core.peers
        if peers.dead.get(name) != event.incarnation and self.core.open_link(name) is not None:
            tree.declare(name)  # its session is a new one, so the old one is lost
        if peers.came_up(name, event.incarnation, event.room) is not None:
            self.heard(Heard(name))
            tree.seeker.session_began(name)

    def down(self, event: LinkDown) -> None:
        name = event.peer
        self._early.pop(name, None)
        self.core.peers.went_down(name)
        if self.core.open_link(name) is not None:
            if event.cause is EndCause.CLOSED:  # a neighbour ends a session only with those it has declared dead
                self.core.end_life(Retire(f"declared dead by {name}: {event.reason}"))
            else:
                self.tree.declare(name)

    def silent(self, event: Silent) -> None:
        name, core = event.peer, self.core
        if core.peers.lost(name, event.refused) is None or name in core.peers.dead:
            return
        if event.refused:
            self.tree.refused(name)
        elif name in core.links:
            core.out.append(SetTimer(SuspectDue(name), core.now_us + core.options.timer_us))

    def heard(self, event: Heard) -> None:
        if self.core.peers.heard(event.peer) is not None:
            self.core.out.append(CancelTimer(SuspectDue(event.peer)))

    def cut_off(self, name: str, reason: str) -> None:
        if name in self.core.links:
            self.tree.declare(name)
        else:
            self.core.peers.close(name, reason)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _keep_early(self, name: str, message: Any) -> None:
        """It speaks as a neighbour, and this end has yet to hear that they are."""
        if self.core.peers.is_up(name):
            early = self._early.setdefault(name, [])
            early.append(message)
            if len(early) > EARLY_MAX:
                raise PeerError(f"{name} is no neighbour here")

    def _linked(self, outcome: LinkBegan) -> None:
        """What came on this link before this end knew of it; or the other end has died before it began."""
        if not self.core.peers.is_up(outcome.name):
            self.tree.declare(outcome.name)
        for message in self._early.pop(outcome.name, ()):
            self.hear(outcome.name, message)

    def _say(self, name: str, message: ProtocolMessage) -> None:
        """About subscriptions, in its place among the publications; to the dead, nothing."""
        link = self.core.open_link(name)
        if link is not None and isinstance(message, InterestConfirmed):
            self.core.say(link, message)  # nothing that passed before is owed
        elif link is not None:
            self.core.outbox.send(name, message)

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """What waited for totals that are processed now."""
        while self.totals.waited_for:
            self.intake.drain_all()
            self.clients.drain_all()
            self.totals.activate_next()
