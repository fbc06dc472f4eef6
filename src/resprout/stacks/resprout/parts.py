"""The parts of one broker, put together: each receives what it uses, and nothing else.

A part is made after the parts that it uses. Where a part has to call one that is made later, it receives a method of
this class ("calls upward" below) that passes the call on. Only `broker` and `account` receive all parts.
"""

import random
from collections.abc import Iterable
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Marks
from resprout.core.seen import Seen
from resprout.edge.broker.consumers import Consumers
from resprout.edge.broker.ghosts import Ghosts
from resprout.edge.broker.quotas import BackPressure
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Extra, Serving
from resprout.order.clock import Clock
from resprout.order.entry import Entry, RecentlyAcked
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.reports import Reports, Retained
from resprout.order.totals.handover import Handover
from resprout.order.totals.levels import TotalAcks
from resprout.order.totals.pending import LockRecord, RootPublication
from resprout.order.totals.root_order import RootOrderedTopics
from resprout.order.totals.totals import Totals
from resprout.overlay.council import Council
from resprout.overlay.messages import CouncilOptions, Namesake
from resprout.spread.covers import Base
from resprout.spread.interest import Interest
from resprout.spread.messages import Outbound
from resprout.stacks.peers import Outbox, Peers
from resprout.stacks.resprout.client_book import Audience, ClientBook, ListenerBook, Roll
from resprout.stacks.resprout.dead_letters import DeadLetters
from resprout.stacks.resprout.delivering import Charges, Delivering
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.draining import Draining
from resprout.stacks.resprout.durable_book import DurableBook
from resprout.stacks.resprout.durable_state import DurableState
from resprout.stacks.resprout.durables import Durables
from resprout.stacks.resprout.follow_ups import FollowUps
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.joining.admission import Admission
from resprout.stacks.resprout.joining.claims import Claims
from resprout.stacks.resprout.joining.newcomer import Newcomer
from resprout.stacks.resprout.joining.offers import Balance, Offers
from resprout.stacks.resprout.joining.reunion import Reunion
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.lost_brokers import LostBrokers
from resprout.stacks.resprout.messages import Attach, Grant, Welcome
from resprout.stacks.resprout.neighbours import Copies, CopyCount, Neighbours
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.pauses import Pauses
from resprout.stacks.resprout.peer_sessions import PeerSessions, TreeNews
from resprout.stacks.resprout.publishing import ClientPublishing, DiskUntilSafe
from resprout.stacks.resprout.remembered import RememberedBrokers
from resprout.stacks.resprout.repair.coordinator import Coordinator
from resprout.stacks.resprout.repair.finish import FinishRepair
from resprout.stacks.resprout.repair.member import Member
from resprout.stacks.resprout.repair.parcels import ParcelDesk
from resprout.stacks.resprout.repair.pool import PoolParts
from resprout.stacks.resprout.reporting import Reporting
from resprout.stacks.resprout.revival import Revival
from resprout.stacks.resprout.served_clients import ServedClients
from resprout.stacks.resprout.shares import Shares
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.spilling import Spilling
from resprout.stacks.resprout.subscribing import ClientInterest, Wishes
from resprout.stacks.resprout.total_delivery import TotalDelivery
from resprout.stacks.resprout.unsettled import UnreadSearch, UnsettledClients
from resprout.stacks.resprout.values import ValueDesk
from resprout.stacks.resprout.waiting import Forgetting, GhostExpiry, Waits
from resprout.stacks.routes import MatchBudget, Routes
from resprout.stacks.stack import BrokerSeat
from resprout.values.rows import is_retained

NAME: Final = "resprout"
GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL, Guarantee.TOTAL)
EXTRAS: Final = (Extra.FORGETTING, Extra.DURABLE, Extra.AUDIENCE, Extra.READING, Extra.POSITIONS, Extra.VALUES)


class BrokerParts:
    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        self.life = BrokerLife(seat, options)
        self._rng = rng
        self._make_tree()
        self._make_log()
        self._make_forwarding()
        self._make_clients()
        self._make_repair()
        self._make_joining()
        self._make_rest()

    def _make_tree(self) -> None:
        """Who the other brokers are, and who of them lives."""
        life, options = self.life, self.life.options
        self.outbox = Outbox(life)
        self.peers = Peers(life, self.outbox, life.seat.name)
        self.links: dict[str, Link] = {}
        self.outbound: Outbound = []
        """What neighbours are told at the end of the step."""
        self.council = Council(
            life.view,
            CouncilOptions(heartbeat_us=options.heartbeat_us, lease_us=options.lease_us),
            self.peers.post,
            life.outcomes,
            self._keep_memory,
            self._namesakes,
        )
        self.waves = self.council.waves
        self.claims = Claims(life, self.peers, self.waves.census)
        self.remembered = RememberedBrokers(life, self.peers, self.links, self.claims, self.council.configurations)
        self.lost = LostBrokers(life, self.links, self.peers)

    def _make_log(self) -> None:
        """The log, its readers, and how far entries have come."""
        life, options, faults = self.life, self.life.options, self.life.faults
        self.clock = Clock(wall_us=lambda: life.seat.epoch_us + life.now_us)
        self.seen = Seen()
        self.reports = Reports(self.links, faults, options.ack_delay_us, self.outbox.pass_by, self._total_rose)
        self.log = Log(faults, self.reports.rose)
        self.recently_acked = RecentlyAcked()
        self.total_acks = TotalAcks(self.log, faults, self._finished, self.recently_acked)
        self.retained = Retained(self.log, self.links, self.total_acks, self.recently_acked)
        self.spilling = Spilling(life, self.log)
        self.interest = Interest(self._base)
        self.client_interest = ClientInterest(self.interest, self.outbound, self._forget_routes)
        self.sessions = ClientSessions(
            Serving(NAME, GUARANTEES, faults, extras=EXTRAS, splits=True, max_payload=options.max_payload),
            self.log,
            self.client_interest,
            self._finished,
            CopyCount(life, self.links).of,
            self._durable_confirmed,
            options.subscriber_room // 2,
            known_deep=lambda: self.interest.index.deep_placements,
        )
        budget = MatchBudget(self.sessions.quotas, self.links, self.sessions.all, lambda: life.now_us)
        self.routes = Routes(self.interest.index, self.links, self.sessions.all, budget)
        self.delivering = Delivering(life, self.log, self.sessions, self.reports)
        self.charges = Charges(options.log_room, self.links, self.log, self.sessions)
        self.pressure = BackPressure(options.log_room, self.charges.of)
        self.disk = (
            DiskLog(
                life,
                self.links,
                self.sessions,
                self.lost,
                self.interest.index,
                self._durable_states,
                lambda: self.values.store,
                lambda: self.client_book.durables.all_ids(),
            )
            if options.durable == "journal"
            else None
        )

    def _make_forwarding(self) -> None:
        """What crosses links: bundles, totals, and what is said besides."""
        life = self.life
        self.speaking = Speaking(self.outbox, self.links, self.outbound, self.log)
        self.forwarding = Forwarding(
            life, self.outbox, self.links, self.log, self.clock, self.seen, self.sessions, self.routes, self.reports,
            self.delivering, self.pressure, self.disk, self.spilling, self.speaking,
        )  # fmt: skip
        after = life.options.root_ordered_after if life.faults <= 1 else 0
        self.totals = Totals(
            life.view, self.clock, self.speaking.say_in_order, self._deliver_total, self.seen.has,
            RootOrderedTopics(after, is_retained), self._publish_total, self._total_known,
        )  # fmt: skip
        self.handover = Handover(self.totals)
        self.values = ValueDesk(
            life, self.log, self.sessions, self.totals, self.seen, self.clock, self.delivering, self.disk
        )
        self.total_delivery = TotalDelivery(
            life, self.links, self.log, self.clock, self.seen, self.sessions, self.reports, self.delivering,
            self.total_acks, self.totals, self.disk, self.speaking, self.forwarding, self.values,
            self._drain_clients,
        )  # fmt: skip
        self.copies = Copies(
            life.faults, self.links, self.log, self.total_acks, self.totals, self.speaking, self.forwarding
        )
        self.unread = UnreadSearch(life.view.neighbours, self.outbound, self.log, self.seen)
        self.reporting = Reporting(
            life, self.links, self.outbound, self.recently_acked, self.log, self.sessions, self.reports, self.pressure,
            self.total_acks, self.speaking, self.total_delivery,
        )  # fmt: skip

    def _make_clients(self) -> None:
        """Who is served, and what clients publish and want."""
        life, options = self.life, self.life.options
        self.ghosts = Ghosts(self.sessions, self.log, self.client_interest, self.interest.index)
        self.pauses = Pauses(life, self.links, self.outbound, self.log, self.sessions, self._drain_clients)
        self.client_book = ClientBook(
            ListenerBook(life, self.links, self.outbound, self.sessions, self.disk, self.ghosts),
            Roll(life, self.links, self.outbound, self.sessions, self.ghosts),
            DurableBook(
                life,
                self.links,
                self.outbound,
                self.disk,
                self.spilling,
                self._durable_changed,
                self._durable_known,
                self._durable_defended,
            ),
            self.pauses,
        )
        self.until_safe = (
            DiskUntilSafe(life, self.log, self.clock, self.seen, self.delivering, self.totals, self.forwarding)
            if options.durable is True
            else None
        )
        self.unsettled = UnsettledClients(self.sessions, self.seen)
        self.publishing = ClientPublishing(
            life, self.log, self.clock, self.seen, self.sessions, self.delivering, self.pressure,
            self.charges, self.totals, self.forwarding, self.total_delivery, self.pauses, self.unsettled,
            self.until_safe, self.values,
        )  # fmt: skip
        self.wishes = Wishes(
            life, self.outbound, self.interest, self.sessions, self.routes, self.disk,
            self.client_book.listeners, self.links, lambda: self.retained.searches,
            self.values.begin, self.values.reads.may_begin,
        )  # fmt: skip
        self.served = ServedClients(
            life, self.peers, self.links, self.log, self.clock, self.client_interest, self.sessions,
            self.total_acks, self.disk, self.lost, self.remembered, self.ghosts, self.client_book, self.unsettled,
            self.publishing, self.unread, self.wishes.postponed.bring, self._client_left, self._look_at_durables,
        )  # fmt: skip
        self.durables = Durables(
            life, self.links, self.log, self.sessions, self.routes, self.disk, self.spilling, self.lost, self.ghosts,
            self.client_book, self.served, self.council.holds_lease, self._make_dead_letters, self._make_follow_ups,
        )  # fmt: skip
        self.shares = Shares(
            life, self.log, self.interest, self.sessions, self.spilling, self.pauses, self.served, self.durables
        )

    def _make_repair(self) -> None:
        """Links that begin and end, both ends of a repair, and the restart of everything."""
        life = self.life
        self.neighbours = Neighbours(
            life, self.peers, self.outbox, self.waves, self.unread, self.links, self.log, self.recently_acked,
            self.routes, self.pressure, self.forwarding, self.interest, self.wishes, self.client_book,
        )  # fmt: skip
        pool = self.pool = PoolParts(
            life, self.log, self.clock, self.seen, self.reports, self.delivering, self.forwarding, self.handover,
            self.total_acks, self.total_delivery,
        )  # fmt: skip
        self.member = Member(
            life, self.peers, self.waves, self.council, self.links, self.log, self.clock, self.seen,
            self.interest, self.total_acks, self.handover, self.retained, self.speaking, self.forwarding,
            self.neighbours, self.wishes, self.client_book, pool,
        )  # fmt: skip
        finish = FinishRepair(
            life, self.peers, self.waves, self.links, self.outbound, self.log, self.clock, self.seen, self.interest,
            self.sessions, self.routes, self.total_acks, self.totals, self.handover, self.retained, self.speaking,
            self.forwarding, self.copies, self.neighbours, self.wishes, self.ghosts, self.client_book, pool,
        )  # fmt: skip
        self.coordinator = Coordinator(
            life, self.peers, self.waves, self.links, self.neighbours, self.council, self.client_book.roll, finish
        )
        self.revival: Revival | None = None
        if self.disk is not None:
            self.revival = Revival(
                life, self.peers, self.waves, self.links, self.log, self.clock, self.sessions, self.routes,
                self.reports, self.delivering, self.totals, self.speaking, self.forwarding, self.lost, self.disk,
                self.ghosts, self.client_book, self.values,
            )  # fmt: skip

    def _make_joining(self) -> None:
        """How this broker finds a place, gives places to others, and leaves."""
        life = self.life
        offers = Offers(life, self.interest, self._rng)
        self.balance = Balance(life, self.links, self.interest, offers)
        self.newcomer = Newcomer(
            life, self.peers, self.waves, self.links, self.clock, self.seen, self.totals, self.disk,
            self.neighbours, self.remembered, self.wishes, self._rng, self.council.configurations, self.values,
            self.balance,
        )  # fmt: skip
        self.reunion = Reunion(life, self.peers, self.totals, self.remembered, self.council, self.newcomer)
        self.admission = Admission(
            life, self.peers, self.waves, self.links, self.clock, self.seen, self.interest, self.totals,
            self.handover, self.retained, self.speaking, self.copies, self.neighbours, self.wishes, self.council,
            offers, self.ghosts, self.client_book, self.claims, self.remembered, self.served,
            self.values,
        )  # fmt: skip
        self.draining = Draining(
            life, self.peers, self.outbox, self.links, self.log, self.sessions, self.totals, self.disk, self.copies,
            self.council, self.claims, self.admission, self.ghosts, self.speaking, self.durables,
        )  # fmt: skip
        self.tree_news = TreeNews(life, self.waves, self.council, self.admission)

    def _make_rest(self) -> None:
        """What links tell of peers, and what stands above everything else."""
        life = self.life
        self.ghost_expiry = GhostExpiry(
            life, self.waves, self.ghosts, self.client_book.listeners, self.claims, self.served
        )
        self.audience = Audience(life, self.interest)
        self.forgetting = Forgetting(life, self.peers, self.council)
        self.waits = Waits(life, self.peers, self.sessions, self.totals, self.council)
        self.parcels = ParcelDesk(
            life,
            self.council,
            {Attach: self.coordinator.attached, Grant: self.member.granted, Welcome: self.newcomer.welcomed},
        )
        self.peer_sessions = PeerSessions(
            life, self.peers, self.outbox, self.links, self.sessions, self.reports, self.total_acks, self.forwarding,
            self.council, self.served, self.newcomer, self.admission, self.coordinator, self.durables,
            self.reunion,
        )  # fmt: skip

    def _make_dead_letters(self, consumers: Consumers) -> DeadLetters:
        return DeadLetters(
            self.life, self.clock, self.seen, self.delivering, self.forwarding, self.served, consumers
        )  # fmt: skip

    def _make_follow_ups(self, consumers: Consumers) -> FollowUps:
        return FollowUps(
            self.life, self.clock, self.seen, self.delivering, self.forwarding, self.served, consumers
        )  # fmt: skip

    # -- calls upward --------------------------------------------------------------------------------------------------

    def _keep_memory(self) -> None:
        """This broker has agreed to a configuration."""
        self.remembered.write()

    def _namesakes(self, name: str) -> list[Namesake]:
        """A census asks for newcomers of this name."""
        return self.claims.told(name)

    def _total_rose(self, entry: Entry) -> None:
        """A total has come further."""
        self.total_acks.touch(entry)

    def _finished(self, entry: Entry) -> None:
        """The last reader has taken an entry."""
        self.delivering.finished(entry)

    def _base(self) -> Base:
        """Something is wanted from now on: return how far origins have come of which something may still be kept."""
        retained = self.retained.marks()
        return retained if self.disk is None else self.disk.base(retained)

    def _forget_routes(self) -> None:
        """What clients want has changed."""
        self.routes.forget()

    def _deliver_total(self, bundle: Bundle, tseq: int, prompt: bool, is_repeat: bool) -> None:
        """A total is closed on all sides."""
        self.total_delivery.deliver(bundle, tseq, prompt, is_repeat)

    def _publish_total(self, record: LockRecord, publication: RootPublication) -> None:
        """A total has come that the root has published."""
        self.total_delivery.publish(record, publication)

    def _total_known(self, bundle: Bundle) -> None:
        """A total that waited here was ordered before."""
        self.publishing.known_elsewhere(bundle)

    def _drain_clients(self) -> None:
        """Publications that waited may go on."""
        self.publishing.drain_all()

    def _client_left(self, name: str) -> None:
        """A session with a client is over."""
        self.durables.leave(name)
        self.values.leave(self.sessions.all[name])
        self.wishes.postponed.leave(name)

    def _look_at_durables(self) -> None:
        """Clients that wait were looked at again."""
        self.durables.decide_all()

    def _durable_confirmed(self, session: ClientSession, base: Marks) -> None:
        """A durable subscription that begins here misses nothing from now on."""
        self.durables.confirmed(session, base)

    def _durable_changed(self, state: DurableState) -> None:
        """Another broker has said where a durable subscription lives."""
        self.durables.changed(state)

    def _durable_defended(self, state: DurableState) -> bool:
        """Another broker has said of a durable subscription what cannot be true."""
        return self.durables.defends(state)

    def _durable_known(self, state: DurableState) -> None:
        """All brokers know what this one has said of a durable subscription."""
        self.durables.heard_of(state)

    def _durable_states(self) -> Iterable[DurableState]:
        """The log on disk is written anew, with all durable subscriptions."""
        return self.client_book.durables.whole_states()
