"""One broker: its parts, and who hears what. Dispatch is that of `stacks.shell`."""

import random
from typing import Any

from resprout.core.contract import (
    CancelTimer,
    Close,
    EndCause,
    Heard,
    LinkDown,
    LinkUp,
    Retire,
    Send,
    SetTimer,
    Silent,
    Timer,
    Writable,
)  # fmt: skip
from resprout.core.errors import PeerError
from resprout.edge.broker.ghosts import GhostOver
from resprout.edge.messages import (
    Attend,
    Publish,
    Subscribe,
    Successor,
    Successors,
    Taken,
    Unsubscribe,
)  # fmt: skip
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.stacks.ginger.clients import GingerClients, SettleDue
from resprout.stacks.ginger.core import GingerCore
from resprout.stacks.ginger.handover import OrphansDue
from resprout.stacks.ginger.intake import Intake
from resprout.stacks.ginger.messages import (
    Attached,
    LostMessage,
    LostMessageRequest,
    Metadata,
    NodeGone,
    ParentBuffer,
    ParentRequest,
    ParentResponse,
    Passed,
    Placed,
    Progress,
    TotalAck,
    TotalLock,
    TotalProcessed,
    TotalRequest,
    TreeViewSeen,
    TreeViewUpdate,
)  # fmt: skip
from resprout.stacks.ginger.options import GingerOptions
from resprout.stacks.ginger.orphan import ParentAnswerDue
from resprout.stacks.ginger.outcomes import Answered, FollowsRoot, Linked, LinksChanged
from resprout.stacks.ginger.reception import AttendDue, Reception
from resprout.stacks.ginger.totals import GingerTotals, Total
from resprout.stacks.ginger.tree import Tree
from resprout.stacks.ginger.view import View
from resprout.stacks.ginger.window import GingerLink
from resprout.stacks.shell.desk import Desk
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
        self._successors: tuple[Successor, ...] = ()
        self._report_set = False
        if seat.address:
            self.view.addresses[seat.name] = seat.address
        super().__init__(
            core,
            events={
                Writable: self._writable,
                LinkUp: self._link_up,
                LinkDown: self._link_down,
                Silent: self._silent,
                Heard: self._heard,
            },
            desks=(self._clients(), self._brokers(), self._neighbours()),
            cut_off=self._cut_off,
            timers={
                ReportDue: self._report_due,
                SuspectDue: lambda timer: tree.declare(timer.peer),
                ParentAnswerDue: tree.seeker.answer_due,
                OrphansDue: tree.leader.orphans_due,
                GhostOver: self.clients.dismiss,
                SettleDue: self.clients.settle,
                AttendDue: self.reception.attend_due,
            },
            outcomes={
                LinksChanged: lambda outcome: tree.settle(),
                Answered: lambda outcome: tree.reconsider(),
                FollowsRoot: tree.follow_root,
                Linked: self._linked,
            },
            at_end=(
                self._go_on,
                tree.admit,
                self._say,
                self.reception.serve,
                self._say,
                self._tell_successors,
                self._report,
            ),
        )

    def begin(self) -> None:
        self.tree.start()
        self.view.refresh()

    # -- who may say what ----------------------------------------------------------------------------------------------

    def _clients(self) -> Desk:
        core, sessions = self.core, self.core.sessions
        return Desk(
            sessions.all.get,
            {
                Attend: self.reception.attend,
                Publish: self.clients.publish,
                Taken: lambda session, message: sessions.taken(session, message, core.out),
                Subscribe: lambda session, message: sessions.subscribe(session, message, core.out),
                Unsubscribe: lambda session, message: sessions.unsubscribe(session, message, core.out),
            },
            check=lambda session, message: session.check_turn(message),
            is_only=True,
        )

    def _brokers(self) -> Desk:
        tree = self.tree
        return Desk(
            tree.peers.find,
            {
                ParentRequest: lambda peer, message: tree.hear_request(peer.name, message),
                ParentResponse: lambda peer, message: tree.seeker.hear_response(peer.name, message),
                ParentBuffer: lambda peer, message: tree.seeker.hear_buffer(peer.name, message),
                LostMessage: lambda peer, message: tree.hear_lost(peer.name, message),
                LostMessageRequest: lambda peer, message: tree.leader.hear_lost_request(peer.name, message),
                Placed: lambda peer, message: tree.leader.hear_placed(peer.name, message),
                Attached: lambda peer, message: tree.seeker.hear_attached(peer.name, message),
                NodeGone: lambda peer, message: self._gone(peer.name, message),
            },
        )

    def _neighbours(self) -> Desk:
        core, sessions = self.core, self.core.sessions
        return Desk(
            self._find_open,
            {
                Metadata: self.intake.hear,
                Passed: self.intake.hear,
                TotalRequest: self.intake.hear,
                TotalProcessed: self.intake.hear,
                Progress: core.hear_progress,
                TotalLock: self._lock,
                TotalAck: self.totals.hear_ack,
                TreeViewUpdate: self._viewed,
                TreeViewSeen: lambda link, message: self.view.hear_seen(link.name, message),
                Interested: lambda link, m: sessions.confirm(core.wishes.hear(link.name, m), core.out),
                InterestConfirmed: lambda link, m: sessions.confirm(core.wishes.hear_recorded(link.name, m), core.out),
                Uninterested: lambda link, m: sessions.confirm(core.wishes.hear_ended(link.name, m), core.out),
            },
            strange=self._keep_early,
        )

    def _find_open(self, name: str) -> GingerLink | None:
        return self.core.links.get(name) if name not in self.core.broken else None

    # -- sessions ------------------------------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp) -> None:
        name, tree, core = event.peer, self.tree, self.core
        if event.role == "client":
            if tree.peers.is_up(name) or name in core.links:
                core.out.append(Close(name, f"{name!r} is the name of a broker"))
            else:
                core.sessions.arrive(name, event.incarnation, event.room)
            return
        if name in self.core.sessions.all:
            core.out.append(Close(name, f"{name!r} is the name of a client"))
            return
        is_dead = tree.peers.dead.get(name) == event.incarnation
        if not is_dead and name in core.links and name not in core.broken:
            tree.declare(name)  # its session is a new one, so the old one is lost
        if tree.peers.came_up(name, event.incarnation, event.room) is not None:
            self._heard(Heard(name))
            tree.seeker.session_began(name)

    def _link_down(self, event: LinkDown) -> None:
        name = event.peer
        self._early.pop(name, None)
        if name in self.core.sessions.all:
            self._lose_client(name)
            return
        self.tree.peers.went_down(name)
        if self._find_open(name) is not None:
            if event.cause is EndCause.CLOSED:  # a neighbour ends a session only with those it has declared dead
                self.core.end_life(Retire(f"declared dead by {name}: {event.reason}"))
            else:
                self.tree.declare(name)

    def _silent(self, event: Silent) -> None:
        name, core = event.peer, self.core
        peer = self.tree.peers.get(name)
        if name in self.core.sessions.all or peer is None or name in self.tree.peers.dead:
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

    def _gone(self, name: str, message: NodeGone) -> None:
        if message.incarnation == self.seat.incarnation:
            self.core.end_life(Retire(f"declared dead by {name}"))

    def _writable(self, event: Writable) -> None:
        core = self.core
        if (session := core.sessions.all.get(event.peer)) is not None:
            core.sessions.writable(session, event.room, core.out)
        else:
            core.writable(event.peer, event.room)

    def _cut_off(self, peer: str, reason: str) -> None:
        if peer in self.core.sessions.all:
            self.core.out.append(Close(peer, reason))
            self._lose_client(peer)
        elif peer in self.core.links:
            self.tree.declare(peer)
        else:
            self.tree.peers.close(peer, reason)

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

    def _lock(self, link: GingerLink, message: TotalLock) -> None:
        if not link.is_parent:
            raise PeerError("only a parent orders totals")
        self.totals.lock(Total(message.no, message.bundle, message.hops, message.prompt))

    def _viewed(self, link: GingerLink, message: TreeViewUpdate) -> None:
        self.view.hear(link.name, message)
        if link.is_parent:
            self.view.refresh()

    def _lose_client(self, name: str) -> None:
        self.reception.forget(name)
        self.clients.leave(name)
        self.reception.count()

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """What waited for totals that are processed now."""
        while self.totals.waited_for:
            self.intake.drain_all()
            self.clients.drain_all()
            self.totals.activate_next()

    def _say(self) -> None:
        """About subscriptions, in its place among the publications; to the dead, nothing."""
        core = self.core
        if core.wishes.outbound:
            outbound, core.wishes.outbound = core.wishes.outbound, []
            for name, message in outbound:
                link = self._find_open(name)
                if link is not None:
                    if isinstance(message, InterestConfirmed):
                        core.tell_skips(link)
                    core.put(link, message)

    def _tell_successors(self) -> None:
        if self._successors != self.view.successors:
            self._successors = self.view.successors
            served = [session.name for session in self.core.sessions.all.values() if session.attending]
            self.core.out.extend(Send(name, Successors(self._successors)) for name in served)

    def _report(self) -> None:
        """What somebody waits for; the rest soon."""
        core = self.core
        core.sessions.flush(core.out)
        core.pressure.release(core.out)
        later = core.report(all_news=False) or core.sessions.patient
        if later and not self._report_set:
            self._report_set = True
            core.out.append(SetTimer(ReportDue(), core.now_us + self.options.ack_delay_us))

    def _report_due(self, timer: ReportDue) -> None:
        self._report_set = False
        self.core.sessions.flush_all(self.core.out)
        self.core.report(all_news=True)
