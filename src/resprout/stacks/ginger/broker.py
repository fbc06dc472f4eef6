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
from resprout.stacks.ginger.clients import GingerClients, SettleDue
from resprout.stacks.ginger.core import GingerCore
from resprout.stacks.ginger.intake import Intake
from resprout.stacks.ginger.messages import (
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
from resprout.stacks.ginger.options import GingerOptions
from resprout.stacks.ginger.outcomes import Linked
from resprout.stacks.ginger.reception import AttendDue, Reception
from resprout.stacks.ginger.totals import GingerTotals
from resprout.stacks.ginger.tree import Tree
from resprout.stacks.ginger.view import View
from resprout.stacks.ginger.window import GingerLink
from resprout.stacks.shell.asking import Asking
from resprout.stacks.shell.clients import ClientDesk
from resprout.stacks.shell.desk import Desk
from resprout.stacks.shell.sessions import SessionEvents
from resprout.stacks.shell.shell import Shell
from resprout.stacks.stack import BrokerSeat

EARLY_MAX = 10_000
"""Messages that may come on a link before its other end is told of it."""


class SuspectDue(Timer, frozen=True):
    """When to declare a silent broker dead."""

    peer: str


class ReportDue(Timer, frozen=True):
    """When to tell neighbours and clients what nobody waits for."""


class GingerBroker(Shell):
    def __init__(self, seat: BrokerSeat, options: GingerOptions, rng: random.Random) -> None:
        self.seat = seat
        self.options = options
        core = self.core = GingerCore(seat.name, options)
        self.totals = GingerTotals(core)
        self.clients = GingerClients(core, self.totals, seat.incarnation)
        self.intake = Intake(core, self.totals)
        self.view = View(core)
        self.tree = tree = Tree(seat, core, self.totals, self.clients, self.view, self.intake)
        self.reception = Reception(core, self.clients, self.view, tree)
        self._early: dict[str, list[Any]] = {}
        self._report_set = False
        if seat.address:
            self.view.addresses[seat.name] = seat.address
        asking = Asking(core, core.sessions, core.wishes, self._say)
        desk = ClientDesk(
            core,
            core.sessions,
            publish=self.clients.publish,
            attend=self.reception.attend,
            successors=lambda: self.view.successors,
            left=self._client_left,
        )
        sessions = SessionEvents(core, desk, self, core.writable)
        super().__init__(
            core,
            events={**sessions.table, Heard: self._heard},
            desks=(desk.desk(), Desk(tree.peers.find, tree.handlers), self._neighbours(asking)),
            cut_off=sessions.cut_off,
            timers={
                **tree.timers,
                ReportDue: self._report_due,
                SuspectDue: lambda timer: tree.declare(timer.peer),
                GhostOver: self.clients.dismiss,
                SettleDue: self.clients.settle,
                AttendDue: self.reception.attend_due,
            },
            outcomes={**tree.outcomes, Linked: self._linked},
            at_end=(
                self._go_on, tree.admit, asking.ask, self.reception.serve, asking.ask, desk.serve, self._report,
            ),
        )  # fmt: skip

    def begin(self) -> None:
        self.tree.start()
        self.view.refresh()

    def _neighbours(self, asking: Asking) -> Desk:
        return Desk(
            self._find_open,
            {
                Metadata: self.intake.hear,
                Passed: self.intake.hear,
                TotalRequest: self.intake.hear,
                TotalProcessed: self.intake.hear,
                Progress: self.core.hear_progress,
                TotalLock: self.totals.hear_lock,
                TotalAck: self.totals.hear_ack,
                TreeViewUpdate: self._viewed,
                TreeViewSeen: lambda link, message: self.view.hear_seen(link.name, message),
                **asking.handlers,
            },
            strange=self._keep_early,
        )

    def _find_open(self, name: str) -> GingerLink | None:
        return self.core.links.get(name) if name not in self.core.broken else None

    # -- sessions with brokers (`BrokerSessions`) ----------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        return self.tree.peers.is_up(name) or name in self.core.links

    def up(self, event: LinkUp) -> None:
        name, tree = event.peer, self.tree
        if tree.peers.dead.get(name) != event.incarnation and self._find_open(name) is not None:
            tree.declare(name)  # its session is a new one, so the old one is lost
        if tree.peers.came_up(name, event.incarnation, event.room) is not None:
            self._heard(Heard(name))
            tree.seeker.session_began(name)

    def down(self, event: LinkDown) -> None:
        name = event.peer
        self._early.pop(name, None)
        self.tree.peers.went_down(name)
        if self._find_open(name) is not None:
            if event.cause is EndCause.CLOSED:  # a neighbour ends a session only with those it has declared dead
                self.core.end_life(Retire(f"declared dead by {name}: {event.reason}"))
            else:
                self.tree.declare(name)

    def silent(self, event: Silent) -> None:
        name, core = event.peer, self.core
        peer = self.tree.peers.get(name)
        if peer is None or name in self.tree.peers.dead:
            return
        peer.silent = True
        if event.refused:
            self.tree.refused(name)
        elif name in core.links:
            core.out.append(SetTimer(SuspectDue(name), core.now_us + self.options.timer_us))

    def _heard(self, event: Heard) -> None:
        peer = self.tree.peers.get(event.peer)
        if peer is not None:
            peer.silent = False
            self.core.out.append(CancelTimer(SuspectDue(event.peer)))

    def cut_off(self, name: str, reason: str) -> None:
        if name in self.core.links:
            self.tree.declare(name)
        else:
            self.tree.peers.close(name, reason)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _keep_early(self, name: str, message: Any) -> None:
        """It speaks as a neighbour, and this end has yet to hear that they are."""
        if self.tree.peers.is_up(name):
            early = self._early.setdefault(name, [])
            early.append(message)
            if len(early) > EARLY_MAX:
                raise PeerError(f"{name} is no neighbour here")

    def _linked(self, outcome: Linked) -> None:
        """What came on this link before this end knew of it; or the other end has died before it began."""
        if not self.tree.peers.is_up(outcome.name):
            self.tree.declare(outcome.name)
        for message in self._early.pop(outcome.name, ()):
            self.hear(outcome.name, message)

    def _viewed(self, link: GingerLink, message: TreeViewUpdate) -> None:
        self.view.hear(link.name, message)
        if link.is_parent:
            self.view.refresh()

    def _client_left(self, name: str) -> None:
        self.reception.forget(name)
        self.clients.leave(name)
        self.reception.count()

    def _say(self, name: str, message: ProtocolMessage) -> None:
        """About subscriptions, in its place among the publications; to the dead, nothing."""
        if (link := self._find_open(name)) is not None:
            if isinstance(message, InterestConfirmed):
                self.core.tell_skips(link)
            self.core.put(link, message)

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """What waited for totals that are processed now."""
        while self.totals.waited_for:
            self.intake.drain_all()
            self.clients.drain_all()
            self.totals.activate_next()

    def _report(self) -> None:
        """What somebody waits for; the rest soon."""
        core = self.core
        core.sessions.flush(core.out)
        core.push_back(core.out)
        later = core.report(all_news=False) or core.sessions.patient
        if later and not self._report_set:
            self._report_set = True
            core.out.append(SetTimer(ReportDue(), core.now_us + self.options.ack_delay_us))

    def _report_due(self, timer: ReportDue) -> None:
        self._report_set = False
        self.core.sessions.flush_all(self.core.out)
        self.core.report(all_news=True)
