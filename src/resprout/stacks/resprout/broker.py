"""One broker of the default stack: its parts, and who hears what.

The parts are files: the way of a bundle (`forwarding`) and of a total (`total_way`), clients (`clients`), coming and
going (`joining/`), what links tell of peers (`sessions`), and both ends of a repair (`repair/`); who lives and who may
say otherwise is the business of `overlay`. Dispatch is that of `stacks.shell`.
"""

import random
from collections.abc import Callable
from typing import Any

from resprout.core.contract import (
    Heard,
    LinkDown,
    LinkUp,
    Recovered,
    Request,
    SetTimer,
    Silent,
    Stirred,
    Timer,
    Writable,
)  # fmt: skip
from resprout.edge.broker.answering import Answering, NothingKept
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import AskAudience, Attend, ForgetBrokers, Publish, Taken
from resprout.edge.requests import LeaveRequest, LookForRequest
from resprout.order.link import Link
from resprout.order.messages import Forward, Levels
from resprout.order.timers import ReportSpread, ReportTaken, ReportTotals
from resprout.order.totals.levels import TotalLevels
from resprout.order.totals.messages import Lock, Submit, TotalCopy, check_total
from resprout.overlay.council import Council
from resprout.overlay.memory import Whereabouts
from resprout.overlay.messages import Enrol, Enrolled, Probe, Probed, Seek, Sought, Suspect
from resprout.overlay.outcomes import Declared, Expelled, Registered
from resprout.overlay.status import CouncilOptions
from resprout.spread.messages import SPREAD_MESSAGES
from resprout.stacks.resprout import account
from resprout.stacks.resprout.audience import Audience
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.client_interest import DropMore
from resprout.stacks.resprout.company import Company
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.disk_until_safe import DiskUntilSafe
from resprout.stacks.resprout.draining import Draining, DrainOver
from resprout.stacks.resprout.durable_messages import DurableDone, DurableHeard, DurableKnown
from resprout.stacks.resprout.durables import Durables
from resprout.stacks.resprout.forgetting import Forgetting
from resprout.stacks.resprout.ghost_expiry import GhostExpiry
from resprout.stacks.resprout.joining.admission import Admission
from resprout.stacks.resprout.joining.balance import Balance
from resprout.stacks.resprout.joining.choosing import ChooseParent
from resprout.stacks.resprout.joining.newcomer import JoinAgain, Newcomer, NewcomerState
from resprout.stacks.resprout.joining.offers import Offers
from resprout.stacks.resprout.joining.reunion import Reunion
from resprout.stacks.resprout.messages import (
    Attach,
    AttachRequest,
    ClientBegan,
    Grant,
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Leaving,
    ListenersChanged,
    ListenersHeard,
    MoveAway,
    NameTaken,
    NotMember,
    Recollect,
    Welcome,
)
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.outcomes import Cleared, Repaired, Reunited, Settled, Superseded, TakenIn, TreeChanged
from resprout.stacks.resprout.pauses import ReadersPaused
from resprout.stacks.resprout.publishing import ClientPublishing
from resprout.stacks.resprout.repair.coordinator import Coordinator
from resprout.stacks.resprout.repair.member import Member
from resprout.stacks.resprout.repair.parcels import ParcelDesk
from resprout.stacks.resprout.revival import Revival
from resprout.stacks.resprout.served_clients import ServedClients
from resprout.stacks.resprout.sessions import PeerSessions
from resprout.stacks.resprout.shares import LookAtReaders, Shares
from resprout.stacks.resprout.tree_news import TreeNews
from resprout.stacks.resprout.waiting import Waits
from resprout.stacks.resprout.wishes import Wishes
from resprout.stacks.shell.desk import Desk
from resprout.stacks.shell.peers import Peer
from resprout.stacks.shell.shell import Shell
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus, TopicReaders

IDLE_LEASES = 4
"""A session with a broker that nobody needs any more is kept this long."""


class Tick(Timer, frozen=True):
    """When to give signs of life, and to look for those of others."""

    @property
    def background(self) -> bool:
        return True


class ResproutBroker(Shell):
    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        core = self.core = Core(seat, options, rng)
        self.strange = 0
        """How often somebody spoke as a neighbour who is none."""
        council_options = CouncilOptions(heartbeat_us=options.heartbeat_us, lease_us=options.lease_us)
        self.council = Council(core.view, council_options, core.peers.post, core.outcomes, core.waves)
        self.ghosts = Ghosts(core.sessions, core.log, core.wishes, core.interest.index)
        self.until_safe = DiskUntilSafe(core) if options.durable is True else None
        self.book = ClientBook(core, self.ghosts)
        self.answering = Answering(core.sessions, core.seen.mark)
        self.publishing = ClientPublishing(core, self.answering, self.until_safe)
        self.served = ServedClients(core, self.ghosts, self.book, self.answering, self.publishing)
        self.durables = Durables(core, self.ghosts, self.book, self.served)
        self.shares = Shares(core, self.served, self.durables)
        self.company = Company(core, self.council)
        self.council.configurations.keep = self._keep_memory
        self.revival = Revival(core, core.disk, self.ghosts, self.book) if core.disk is not None else None
        self.member = Member(core, self.book)
        self.coordinator = Coordinator(core, self.council, self.ghosts, self.book)
        offers = Offers(core)
        self.balance = Balance(core, offers)
        self.newcomer = Newcomer(core, self.book, self.council.configurations)
        self.reunion = Reunion(core, self.council, self.newcomer)
        self.admission = Admission(core, self.council, offers, self.ghosts, self.book, self.company, self.served)
        self.draining = Draining(core, self.council, self.admission, self.ghosts)
        self.audience = Audience(core)
        self.forgetting = Forgetting(core, self.council)
        self.waits = Waits(core, self.council)
        self.ghost_expiry = GhostExpiry(
            core, core.waves, self.ghosts, self.book.listeners, self.admission.claims, self.served
        )
        self.wishes = Wishes(core, self.book)
        self.tree_news = TreeNews(core, self.council, self.admission)
        self.parcels = ParcelDesk(
            core,
            self.council,
            {Attach: self.coordinator.attached, Grant: self.member.granted, Welcome: self.newcomer.welcomed},
        )
        self.sessions = PeerSessions(
            core,
            self.council,
            self.served,
            self.newcomer,
            self.admission,
            self.coordinator,
            self.parcels,
            self.durables,
            self.reunion,
        )
        super().__init__(
            core,
            events={
                Writable: self.sessions.writable,
                LinkUp: self.sessions.up,
                LinkDown: self.sessions.down,
                Silent: self.sessions.silent,
                Heard: self.sessions.heard,
                Stirred: self.sessions.stirred,
                Request: self._request,
                Recovered: self._recovered,
            },
            desks=(self._clients(), self._neighbours(), self._brokers(), self._newcomers()),
            cut_off=self.sessions.cut_off,
            timers={
                Tick: self._tick,
                JoinAgain: lambda timer: self.newcomer.again(),
                DrainOver: self.draining.over,
                ChooseParent: lambda timer: self.newcomer.choose(),
                GhostOver: self.ghost_expiry.due,
                NothingKept: lambda timer: self.served.settle(),
                DropMore: lambda timer: self.served.drop_more(),
                LookAtReaders: lambda timer: None,  # at the end of the step
                **dict.fromkeys((ReportTaken, ReportSpread, ReportTotals), core.report),
            },
            outcomes={
                Declared: lambda outcome: self.coordinator.declared(outcome.names),
                Registered: lambda outcome: self.coordinator.check(),
                Expelled: lambda outcome: core.retire(outcome.reason),
                Repaired: self._repaired,
                Settled: self._settled,
                TakenIn: self._joined,
                Reunited: self._reunited,
                Cleared: lambda outcome: self.admission.admit(),
                Superseded: self.served.superseded,
                TreeChanged: self.tree_news.changed,
            },
            at_end=(
                (self.served.awaited, self.served.look_again),
                (self.book.listeners.answers, self.book.listeners.settle),
                (self.ghosts.idle, self.ghost_expiry.let_idle_go),
                (core.sessions.quotas.overspent, self.served.cut_off_overspent),
                (core.sessions.waking, self.durables.hand_out),
                (core.spilling.candidates, core.spilling.tidy),
                (core.sessions.filling, self.shares.watch),
                (self.shares.watched, self.shares.look),
                (core.log.stuck, self.shares.look_at_copies),
                (core.pauses.unsaid, core.pauses.say),
                core.end,
                *([self.until_safe.forget] if self.until_safe is not None else []),
                *([core.disk.end] if core.disk is not None else []),
                (self.draining.asked, self.draining.check),
            ),
            in_runs=(*SPREAD_MESSAGES, Seek, Sought, ListenersChanged, ListenersHeard, ClientBegan, DurableHeard),
        )

    def begin(self) -> None:
        self.core.lost.began_us = self.core.now_us
        if self.core.seat.memory and self.core.memory is None:
            self.core.refuse(f"what {self.core.seat.name} remembers of its network cannot be read")
            return
        self.newcomer.start()
        if self.newcomer.state is NewcomerState.SEEKING:
            self.reunion.start()
        self._set_tick()

    def latest_life(self, client: str) -> int:
        """The latest life of a client that is known anywhere."""
        return self.book.roll.latest(client)

    def knows_broker(self, name: str) -> bool:
        return self.core.knows_broker(name)

    def status(self) -> StackStatus:
        return account.status_of(self)

    def store_failed(self, reason: str) -> None:
        self.core.retire(f"{reason}; others have copies")

    def readers(self, topic: str) -> TopicReaders:
        return account.readers_of(self, topic)

    # -- who may say what ----------------------------------------------------------------------------------------------

    def _clients(self) -> Desk:
        sessions = self.core.sessions.all
        return Desk(
            sessions.get,
            {
                Attend: self.served.attend,
                Publish: self.publishing.publish,
                Taken: self.served.taken,
                ForgetBrokers: self.forgetting.asked,
                **self.durables.of_clients,
                AskAudience: self.audience.asked,
                **self.wishes.of_clients,
            },
            check=ClientSession.check_turn,
            is_only=True,
            is_guarded=True,
        )

    def _neighbours(self) -> Desk:
        """A neighbour that was declared dead may not know it yet: what it says is dropped."""
        core = self.core

        def at_totals(handler: Callable[[str, Any], None]) -> Callable[[Link, Any], None]:
            return lambda link, message: handler(link.name, message)

        return Desk(
            core.neighbours.heard.get,
            {
                Forward: core.forwarding.forwarded,
                Levels: core.forwarding.take_levels,
                TotalLevels: core.total_way.take_levels,
                TotalCopy: core.total_way.kept,
                ListenersChanged: self.book.listeners.changed,
                ListenersHeard: self.book.listeners.heard,
                ClientBegan: lambda link, message: self.book.roll.heard(link.name, message),
                DurableKnown: self.book.durables.known,
                DurableHeard: self.book.durables.heard,
                DurableDone: self.book.durables.done,
                ReadersPaused: core.pauses.heard,
                MoveAway: lambda link, message: self.newcomer.move_away(link.name, message),
                **(self.revival.of_neighbours if self.revival is not None else {}),
                **self.wishes.of_neighbours,
                **{kind: at_totals(handler) for kind, handler in core.totals.handlers.items()},
                Submit: self._submitted,
                Lock: self.publishing.take_lock,
                **self.tree_news.handlers,
            },
            heard=self.council.heard,
            strange=self._pass_over,
        )

    def _pass_over(self, name: str, message: Any) -> None:
        """From one that is no neighbour; often it was one, and does not know yet."""
        self.strange += 1

    def _newcomers(self) -> Desk:
        """Brokers that have no right to their names yet: others are taken before."""
        admission, outbox = self.admission, self.core.outbox
        return Desk(
            self.core.peers.find,
            {
                JoinRequest: lambda peer, message: admission.requested(peer.name, peer.incarnation, message),
                JoinWithdrawn: lambda peer, message: admission.withdrawn(peer.name, message),
                Probe: lambda peer, message: outbox.send(peer.name, Probed(message.number)),
                **self._seekers(),
            },
            is_only=True,
        )

    def _seekers(self) -> dict[type, Callable[[Peer, Any], None]]:
        """What brokers say that look for their network."""
        reunion = self.reunion
        return {
            Whereabouts: lambda peer, message: reunion.heard(peer.name, peer.incarnation, message),
            Enrol: lambda peer, message: reunion.asked(peer.name, message),
            Enrolled: lambda peer, message: reunion.answered(peer.name, message),
        }

    def _brokers(self) -> Desk:
        core, newcomer, admission = self.core, self.newcomer, self.admission

        def at_council(handler: Callable[[str, Any, int], None]) -> Callable[[Peer, Any], None]:
            return lambda peer, message: handler(peer.name, message, core.now_us)

        probed = at_council(self.council.handlers[Probed])
        enrol, enrolled = at_council(self.council.handlers[Enrol]), at_council(self.council.handlers[Enrolled])
        suspect = at_council(self.council.handlers[Suspect])  # who has no place judges nobody
        reunion = self.reunion

        def all_probed(peer: Peer, message: Probed) -> None:
            probed(peer, message)
            newcomer.probed(peer.name, message)
            self.draining.probed(peer.name, message)

        return Desk(
            core.peers.find_settled,
            {
                JoinRequest: lambda peer, message: admission.requested(peer.name, peer.incarnation, message),
                JoinWithdrawn: lambda peer, message: admission.withdrawn(peer.name, message),
                JoinElsewhere: lambda peer, message: newcomer.sent_elsewhere(peer.name, message),
                NameTaken: lambda peer, message: newcomer.refused(peer.name, message),
                AttachRequest: self._attach_requested,
                Leaving: lambda peer, message: self.draining.told(peer.name),
                NotMember: lambda peer, message: self.coordinator.not_member(peer.name, message),
                Recollect: lambda peer, message: self.revival.told(peer.name) if self.revival is not None else None,
                **self.parcels.handlers,
                **{kind: at_council(handler) for kind, handler in self.council.handlers.items()},
                Probed: all_probed,
                Whereabouts: self._seekers()[Whereabouts],
                Suspect: lambda peer, message: suspect(peer, message) if core.attached else None,
                Enrol: lambda peer, message: (
                    enrol(peer, message) if core.attached else reunion.asked(peer.name, message)
                ),
                Enrolled: lambda peer, message: (
                    enrolled(peer, message) if core.attached else reunion.answered(peer.name, message)
                ),
            },
            heard=self.council.heard,
        )

    # -- what happens --------------------------------------------------------------------------------------------------

    def _submitted(self, link: Link, message: Submit) -> None:
        check_total(message.bundle)
        if not self.core.forwarding.is_forged_total(message.bundle):
            self.core.totals.handlers[Submit](link.name, message)

    def _attach_requested(self, peer: Peer, message: AttachRequest) -> None:
        if self.council.may_repair(peer.name, message.dead, self.core.now_us):
            self.member.requested(peer.name, message)

    def _tick(self, timer: Tick) -> None:
        core = self.core
        self.sessions.tick()
        self.act()
        core.tick()
        if core.attached:
            self.company.remember(self.admission.claims.admitted)
            self.coordinator.declare_dead_children()
            self.council.tick(core.now_us)
            self.act()  # whether this is a moment of calm depends on it
            self.coordinator.tick()
            wanted = (*core.links, *self.council.standby(), *self.coordinator.members, *core.view.attached.values())
            core.peers.keep_only(wanted, IDLE_LEASES * core.options.lease_us)
            self.act()
            self.admission.admit()
            if core.is_calm and (move := self.balance.find_move()) is not None:
                core.outbox.send(*move)
            self.served.decide_all()
            self.durables.tick()
            self.shares.look_at_copies()
            core.pauses.tick()
            self.served.settle()
            self.ghost_expiry.tick()
            self.served.tell_successors()
            self.waits.tick()
        self.reunion.tick()
        self.act()
        if self.revival is not None:
            self.revival.tick()
        self._set_tick()

    def _set_tick(self) -> None:
        core = self.core
        core.out.append(SetTimer(Tick(), core.now_us + core.options.heartbeat_us))

    def _repaired(self, outcome: Repaired) -> None:
        self.core.lost.succeeded(outcome.dead, outcome.successor)
        self._settled(Settled())
        self.core.total_way.drain()

    def _settled(self, outcome: Settled) -> None:
        self.company.remember(self.admission.claims.admitted)
        self.served.tell_successors()
        if self.until_safe is not None and self.served.serving:
            self.until_safe.offer()
        self.served.decide_all()
        if self.core.attached and self.admission.claims.waiting:
            self.admission.admit()

    def _reunited(self, outcome: Reunited) -> None:
        if self.revival is not None:
            self.revival.lead_again()
        self._settled(Settled())

    def _keep_memory(self) -> None:
        self.company.remember(self.admission.claims.admitted)

    def _joined(self, outcome: TakenIn) -> None:
        if self.revival is not None:
            self.revival.joined(outcome.parent)

    def _recovered(self, event: Recovered) -> None:
        if self.until_safe is not None:
            self.until_safe.recovered(event.records)
            if self.served.serving:
                self.until_safe.offer()
        elif self.revival is not None:
            self.revival.recovered(event.records)
            self.act()

    def _request(self, event: Request) -> None:
        if isinstance(event.body, LeaveRequest):
            self.draining.begin(event.body.within_us)
        elif isinstance(event.body, LookForRequest):
            self.reunion.look_for(event.body.names)
