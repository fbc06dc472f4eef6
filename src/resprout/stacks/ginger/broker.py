"""One broker: events to the parts that know what to do."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from resprout.core.contract import (
    CancelTimer,
    Close,
    Effect,
    EndCause,
    Event,
    Heard,
    LinkDown,
    LinkUp,
    Received,
    Retire,
    Send,
    SetTimer,
    Silent,
    Timer,
    TimerFired,
    Writable,
)  # fmt: skip
from resprout.core.errors import PeerError
from resprout.edge.broker.ghosts import GhostOver
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import (
    Attend,
    Publish,
    Refuge,
    Refuges,
    Subscribe,
    Taken,
    Unsubscribe,
)  # fmt: skip
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.stacks.ginger.clients import Clients, SettleDue
from resprout.stacks.ginger.core import Core
from resprout.stacks.ginger.handover import OrphansDue
from resprout.stacks.ginger.intake import Intake
from resprout.stacks.ginger.messages import (
    Attached,
    Gone,
    LostMessage,
    LostMessageRequest,
    Metadata,
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
from resprout.stacks.ginger.orphan import AnswerDue
from resprout.stacks.ginger.reception import AttendDue, Reception
from resprout.stacks.ginger.totals import Total, Totals
from resprout.stacks.ginger.tree import Tree
from resprout.stacks.ginger.view import View
from resprout.stacks.ginger.window import Link
from resprout.stacks.stack import BrokerSeat

EARLY_MAX = 10_000
"""Messages that may come on a link before its other end is told of it."""


class SuspectDue(Timer, frozen=True):
    """When to declare a silent broker dead."""

    peer: str


class ReportDue(Timer, frozen=True):
    """When to tell neighbours and clients what nobody waits for."""


class GingerBroker:
    def __init__(self, seat: BrokerSeat, options: GingerOptions, rng: random.Random) -> None:
        self.seat = seat
        self.options = options
        core = self.core = Core(seat.name, options)
        self.totals = Totals(core)
        self.clients = Clients(core, self.totals, seat.incarnation)
        self.intake = Intake(core, self.totals)
        self.view = View(core)
        self.tree = Tree(seat, core, self.totals, self.clients, self.view, self.intake)
        self.tree.seeker.linked = self._linked
        self.reception = Reception(core, self.clients, self.view, self.tree)
        self._early: dict[str, list[Any]] = {}
        self._refuges: tuple[Refuge, ...] = ()
        self._report_set = False
        if seat.address:
            self.view.addresses[seat.name] = seat.address
        tree = self.tree
        self._on_event: dict[type, Callable[[Any], None]] = {
            Received: self._received,
            Writable: self._writable,
            TimerFired: self._timer_fired,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Silent: self._silent,
            Heard: self._heard,
        }
        self._on_link: dict[type, Callable[[Link, Any], None]] = {
            Metadata: self.intake.hear,
            Passed: self.intake.hear,
            TotalRequest: self.intake.hear,
            TotalProcessed: self.intake.hear,
            Progress: core.hear_progress,
            TotalLock: self._lock,
            TotalAck: self.totals.hear_ack,
            TreeViewUpdate: self._viewed,
            TreeViewSeen: lambda link, message: self.view.hear_seen(link.name, message),
            Interested: lambda link, m: core.sessions.confirm(core.wishes.hear(link.name, m), core.out),
            InterestConfirmed: lambda link, m: core.sessions.confirm(core.wishes.hear_recorded(link.name, m), core.out),
            Uninterested: lambda link, m: core.sessions.confirm(core.wishes.hear_ended(link.name, m), core.out),
        }
        self._on_broker: dict[type, Callable[[str, Any], None]] = {
            ParentRequest: tree.hear_request,
            ParentResponse: tree.seeker.hear_response,
            ParentBuffer: tree.seeker.hear_buffer,
            LostMessage: tree.hear_lost,
            LostMessageRequest: tree.leader.hear_lost_request,
            Placed: tree.leader.hear_placed,
            Attached: tree.seeker.hear_attached,
            Gone: self._gone,
        }
        self._on_client: dict[type, Callable[[ClientSession, Any], None]] = {
            Attend: self.reception.attend,
            Publish: self.clients.publish,
            Taken: lambda session, message: core.sessions.taken(session, message, core.out),
            Subscribe: lambda session, message: core.sessions.subscribe(session, message, core.out),
            Unsubscribe: lambda session, message: core.sessions.unsubscribe(session, message, core.out),
        }
        self._on_timer: dict[type, Callable[[Any], None]] = {
            ReportDue: self._report_due,
            SuspectDue: lambda timer: tree.declare(timer.peer),
            AnswerDue: tree.seeker.answer_due,
            OrphansDue: tree.leader.orphans_due,
            GhostOver: self.clients.dismiss,
            SettleDue: self.clients.settle,
            AttendDue: self.reception.attend_due,
        }

    def start(self, now_us: int) -> Sequence[Effect]:
        self.core.now_us = now_us
        self.tree.start()
        self.view.refresh()
        return self._take_out()

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        core = self.core
        core.now_us = now_us
        handler = self._on_event.get(type(event))
        if handler is not None:
            handler(event)
        while self.totals.waited_for:
            self.intake.drain_all()
            self.clients.drain_all()
            self.totals.activate_next()
        self.tree.admit()
        self._say()
        self.reception.serve()
        self._say()
        if self._refuges != self.view.refuges:
            self._refuges = self.view.refuges
            core.out.extend(Send(s.name, Refuges(self._refuges)) for s in core.sessions.all.values() if s.attending)
        core.sessions.flush(core.out)
        core.pressure.release(core.out)
        later = core.report(all_news=False) or core.sessions.patient
        if later and not self._report_set:
            self._report_set = True
            core.out.append(SetTimer(ReportDue(), now_us + self.options.ack_delay_us))
        return self._take_out()

    def _take_out(self) -> list[Effect]:
        out, self.core.out = self.core.out, []
        return out

    def _say(self) -> None:
        """About subscriptions, in its place among the publications; to the dead, nothing."""
        core = self.core
        if core.wishes.says:
            says, core.wishes.says = core.wishes.says, []
            for name, message in says:
                link = core.links.get(name)
                if link is not None and name not in core.broken:
                    if isinstance(message, InterestConfirmed):
                        core.tell_skips(link)
                    core.put(link, message)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp) -> None:
        name, tree = event.peer, self.tree
        if event.role == "client":
            if name in tree.peers.up or name in self.core.links:
                self.core.out.append(Close(name, f"{name!r} is the name of a broker"))
            else:
                self.core.sessions.arrive(name, event.incarnation, event.room)
            return
        if name in self.core.sessions.all:
            self.core.out.append(Close(name, f"{name!r} is the name of a client"))
            return
        if tree.peers.dead.get(name) == event.incarnation:
            self.core.out.append(Send(name, Gone(event.incarnation)))
            self.core.out.append(Close(name, "declared dead"))
            return
        if name in self.core.links and name not in self.core.broken:
            tree.declare(name)  # its session is a new one, so the old one is lost
        tree.peers.up[name] = event.room
        tree.peers.incarnations[name] = event.incarnation
        self._heard(Heard(name))
        tree.seeker.session_began(name)

    def _link_down(self, event: LinkDown) -> None:
        name = event.peer
        self._early.pop(name, None)
        if name in self.core.sessions.all:
            self._lose_client(name)
            return
        self.tree.peers.up.pop(name, None)
        if name in self.core.links and name not in self.core.broken:
            if event.cause is EndCause.CLOSED:  # a neighbour ends a session only with those it has declared dead
                self.core.out.append(Retire(f"declared dead by {name}: {event.reason}"))
            else:
                self.tree.declare(name)

    def _silent(self, event: Silent) -> None:
        name = event.peer
        if name in self.core.sessions.all or name in self.tree.peers.dead:
            return
        self.tree.peers.silent[name] = None
        if event.refused:
            self.tree.refused(name)
        elif name in self.core.links:
            self.core.out.append(SetTimer(SuspectDue(name), self.core.now_us + self.options.timer_us))

    def _heard(self, event: Heard) -> None:
        if self.tree.peers.silent.pop(event.peer, 0) is None:
            self.core.out.append(CancelTimer(SuspectDue(event.peer)))

    def _gone(self, name: str, message: Gone) -> None:
        if message.incarnation == self.seat.incarnation:
            self.core.out.append(Retire(f"declared dead by {name}"))

    def _writable(self, event: Writable) -> None:
        if (link := self.core.links.get(event.peer)) is not None:
            if event.peer not in self.core.broken:
                self.core.writable(link, event.room)
        elif (session := self.core.sessions.all.get(event.peer)) is not None:
            self.core.sessions.writable(session, event.room, self.core.out)
        elif event.peer in self.tree.peers.up:
            self.tree.peers.up[event.peer] = event.room

    # -- messages ------------------------------------------------------------------------------------------------------

    def _received(self, event: Received) -> None:
        peer, message = event.peer, event.message
        try:
            if (session := self.core.sessions.all.get(peer)) is not None:
                self._from_client(session, message)
            elif (handler := self._on_broker.get(type(message))) is not None:
                handler(peer, message)
            elif (link := self.core.links.get(peer)) is not None and peer not in self.core.broken:
                self._from_link(link, message)
            elif peer in self.tree.peers.up:
                early = self._early.setdefault(peer, [])
                early.append(message)
                if len(early) > EARLY_MAX:
                    raise PeerError(f"{peer} is no neighbour here")
        except PeerError as error:
            self._cut_off(peer, str(error))

    def _from_link(self, link: Link, message: Any) -> None:
        handler = self._on_link.get(type(message))
        if handler is None:
            raise PeerError(f"{type(message).__name__} is not for {link.name} to say")
        handler(link, message)

    def _from_client(self, session: ClientSession, message: Any) -> None:
        session.check_turn(message)
        handler = self._on_client.get(type(message))
        if handler is None:
            raise PeerError(f"{type(message).__name__} is not for {session.name} to say")
        handler(session, message)

    def _cut_off(self, peer: str, reason: str) -> None:
        if peer in self.core.sessions.all:
            self.core.out.append(Close(peer, reason))
            self._lose_client(peer)
        elif peer in self.core.links:
            self.tree.declare(peer)
        else:
            self.core.out.append(Close(peer, reason))
            self.tree.peers.up.pop(peer, None)

    def _linked(self, name: str) -> None:
        """What came on this link before this end knew of it; or the other end has died before it began."""
        if name not in self.tree.peers.up:
            self.tree.declare(name)
        for message in self._early.pop(name, ()):
            self._received(Received(name, message))

    def _lock(self, link: Link, message: TotalLock) -> None:
        if not link.is_parent:
            raise PeerError("only a parent orders totals")
        self.totals.lock(Total(message.no, message.bundle, message.hops, message.prompt))

    def _viewed(self, link: Link, message: TreeViewUpdate) -> None:
        self.view.hear(link.name, message)
        if link.is_parent:
            self.view.refresh()

    # -- clients -------------------------------------------------------------------------------------------------------

    def _lose_client(self, name: str) -> None:
        self.reception.forget(name)
        self.clients.leave(name)
        self.reception.count()

    # -- time ----------------------------------------------------------------------------------------------------------

    def _timer_fired(self, event: TimerFired) -> None:
        handler = self._on_timer.get(type(event.timer))
        if handler is not None:
            handler(event.timer)

    def _report_due(self, timer: ReportDue) -> None:
        self._report_set = False
        self.core.sessions.flush_all(self.core.out)
        self.core.report(all_news=True)
