"""What every part of a broker shares: the state of the floors below, and the parts that everybody needs.

The way of a bundle is in `forwarding`, that of a total in `total_way`, what else neighbours are told in `speaking`. The
other parts (`joining/`, `repair/`) change who the `neighbours` are; these only look at them.
"""

import random

from resprout.core.bundle import Origin
from resprout.core.contract import Timer
from resprout.core.guarantee import Guarantee
from resprout.core.marks import Reached
from resprout.core.seen import Seen
from resprout.edge.broker.backpressure import BackPressure
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Extra, Serving
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.left import Left
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.reports import Reports
from resprout.order.retained import Retained
from resprout.order.timers import ReportTaken, ReportTotals
from resprout.order.totals.handover import Handover
from resprout.order.totals.levels import TotalBook
from resprout.order.totals.totals import Totals
from resprout.overlay.memory import decode
from resprout.overlay.waves import Waves
from resprout.spread.interest import Interest
from resprout.spread.needs import Wish
from resprout.spread.outbound import Outbound
from resprout.stacks.match_budget import MatchBudget
from resprout.stacks.resprout.client_interest import ClientInterest
from resprout.stacks.resprout.copies import Copies
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.lost_brokers import LostBrokers
from resprout.stacks.resprout.neighbours import Neighbours
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.resprout.pauses import Pauses, PauseSeen
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.spilling import Spilling
from resprout.stacks.resprout.total_way import TotalWay
from resprout.stacks.routes import Routes
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.peers import Peers
from resprout.stacks.stack import BrokerSeat

GUARANTEES = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL, Guarantee.TOTAL)
NAME = "resprout"
PAUSED_BYTES_MAX = 1 << 20
"""A publisher that has more than this in line for a paused subscriber is held back; less where logs are small."""


class Core(BrokerLife):
    def __init__(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> None:
        super().__init__(seat, options)
        self.rng = rng
        self.memory = decode(seat.memory) if seat.memory else None
        """What an earlier life has left about the network that it was in."""
        self.sought: dict[str, None] = {}
        """Brokers that may know that network, while this one looks for it."""
        self.outbox = Outbox(self)
        self.peers = Peers(self, self.outbox, seat.name)
        self.waves = Waves(self.view, self.peers.post, self.outcomes)
        self.clock = Clock(wall_us=lambda: seat.epoch_us + self.now_us)
        self.seen = Seen()
        self.links: dict[str, Link] = {}
        self.lost = LostBrokers(self, self.links, self.peers)
        self.reports = Reports(
            self.links, self.faults, options.ack_delay_us, self.outbox.pass_by, lambda entry: self.book.touch(entry)
        )
        self.log = Log(self.faults, self.reports.rose)
        self.spilling = Spilling(self)
        self.interest = Interest(self._base)
        self.outbound: Outbound = []
        self.pressure = BackPressure(options.log_bytes, self.charged_to)
        self.pauses = Pauses(self)
        self.slow_consumers = 0
        """Subscribers that were cut off in this life, and messages that were dropped because subscribers were slow."""
        self.dropped_messages = 0
        self.paused_for: dict[str, PauseSeen] = {}
        """Local publishers whose next publication waits for a subscriber."""
        self.forwarding = Forwarding(self)
        self.speaking = Speaking(self)
        self.total_way = TotalWay(self)
        self.neighbours = Neighbours(self)
        extras = (Extra.FORGETTING, Extra.DURABLE, Extra.AUDIENCE)
        serving = Serving(NAME, GUARANTEES, self.faults, extras=extras, splits=True)
        self.wishes = ClientInterest(self.interest, self.outbound, lambda: self.routes.forget())
        self.sessions = ClientSessions(serving, self.log, self.wishes, self.finished)
        self.copies = Copies(self)
        self.sessions.copies_of = self.copies.count
        budget = MatchBudget(self.sessions.quotas, self.links, self.sessions.all, lambda: self.now_us)
        self.routes = Routes(self.interest.index, self.links, self.sessions.all, budget)
        self.totals = Totals(self.view, self.clock, self.speaking.say_in_order, self.total_way.deliver, self.seen.has)
        self.handover = Handover(self.totals)
        self.left = Left()
        self.book = TotalBook(self.log, self.faults, self.finished, self.left)
        self.retained = Retained(self.log, self.links, self.book, self.left)
        self.disk = DiskLog(self) if options.durable == "journal" else None

    def end(self) -> None:
        """Of a step: tell what is to be told."""
        sessions, reports = self.sessions, self.reports
        if self.outbound:
            self.speaking.say_all()
        if sessions.turned or sessions.ending:
            sessions.flush(self.out)
        if self.pressure.holding:
            self.pressure.release(self.out)
        if sessions.patient and not reports.taken_soon:
            reports.receipts_soon()
        if not self.links and self.book.entries:
            self.total_way.report()  # nobody is told, and no timer comes: forget what is delivered
        if self.book.urgent:
            self.total_way.report(only_done=True)
        if reports.due:
            reports.flush(self.now_us, self.out)

    def report(self, timer: Timer) -> None:
        """The time has come for what nobody waited for."""
        if isinstance(timer, ReportTaken):
            self.sessions.flush_all(self.out)
        self.reports.fired(timer)
        self.total_way.report(only_done=not isinstance(timer, ReportTotals))

    def tick(self) -> None:
        """What was said to neighbours a while ago has arrived, if all of them are heard."""
        if not any(link.silent for link in self.links.values()):
            self.left.turn(self.now_us, self.options.lease_us)

    # -- what several parts do -----------------------------------------------------------------------------------------

    def finished(self, entry: Entry) -> None:
        """Nobody on this side is owed the entry any more."""
        if entry.source is None:
            self.sessions.delivered(entry)
        else:
            self.reports.delivered(entry, entry.source)
        if self.total_way.stood_in_for:
            self.total_way.finished(entry)

    def show(self) -> None:
        """Whatever may be shown by now."""
        next_to_show = self.log.next_to_show
        while (entry := next_to_show()) is not None:
            self.sessions.show(entry, self.out)

    def _base(self) -> dict[Origin, Reached]:
        """Of what becomes wanted now."""
        retained = self.retained.marks()
        return retained if self.disk is None else self.disk.base(retained)

    def knows_broker(self, name: str) -> bool:
        """Whether a broker is, or was, called so, as far as this one knows: no client is."""
        view = self.view
        if name in self.links or name in view.places or name in view.tombstones:
            return True
        if name == self.seat.name or name in self.sought or self.peers.get(name) is not None:
            return True
        remembered = self.memory.others if self.memory is not None else ()
        return any(name == voter.name for voter in view.decided.voters) or any(name == life.name for life in remembered)

    def charged_to(self, source: str) -> int:
        """Bytes that count against a neighbour or a local publisher, to be compared with `log_bytes`. A publisher has a
        fair share of what all of them may use: with n of them it counts n times, as long as all together use too much.
        What it keeps in line for a paused subscriber may be little (`PAUSED_BYTES_MAX`)."""
        link, log = self.links.get(source), self.log
        if link is not None:
            return link.held_bytes
        session = self.sessions.all.get(source)
        waiting = session.waiting_bytes if session is not None else 0
        charged = min(log.local_bytes, (log.local.get(source, 0) + waiting) * max(1, len(log.local)))
        if waiting and source in self.paused_for:
            most = self.pressure.most
            charged = max(charged, waiting * (most // min(PAUSED_BYTES_MAX, most // 4)))
        return charged

    def confirmed(self, wishes: list[Wish]) -> None:
        """Wishes of local clients; and interest has changed."""
        if wishes:
            self.sessions.confirm(wishes, self.out)
        self.routes.forget()
