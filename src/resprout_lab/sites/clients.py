"""The clients of one broker of a site. Each broker serves its own, and any other one of the site can go on with them.

What a client publishes is proposed to the site, and safe when it is decided there. What it reads, it reads in the order
in which the site has placed it. A publication is kept at all brokers of the site until each has said that its own
clients have it, or are not owed it (`Releasing`). So a client that turns to another broker of its site is given what it
missed, from wherever it had come to.
"""

from collections import deque
from typing import Final

from resprout.core.bundle import Origin
from resprout.core.contract import LinkUp, Send, SetTimer, Timer
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message_fields import Mark, Reached
from resprout.edge.broker.owed import Owed
from resprout.edge.broker.quotas import BackPressure
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend, HoldTold, Publish, Serving
from resprout.filters.predicate import Predicate
from resprout.stacks.shell import Step
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.blocks.serving import ClientDesk
from resprout_lab.sites.agreement import Agreement
from resprout_lab.sites.commands import Entering, Releasing, life_of
from resprout_lab.sites.gateway import Gateways
from resprout_lab.sites.local import SharedWishes
from resprout_lab.sites.membership import SiteMembership
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.state import Entered, PlacedBundle, WishNoted

RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)
RELEASED_TOGETHER: Final = 256
"""Publications that are let go of with one command, unless they are large or the site has no room for more."""
RELEASED_BYTES: Final = 1 << 20
BUSY_US: Final = 1_000_000
"""Before a client is given up that could not be now, because something else waits to be decided."""


class ClientOverDue(Timer, frozen=True):
    """When to stop keeping anything for a client that is gone."""

    client: str

    @property
    def background(self) -> bool:
        return True


class _Gone:
    __slots__ = ("floor", "predicates")

    def __init__(self, floor: int, predicates: tuple[Predicate, ...]) -> None:
        self.floor = floor
        self.predicates = predicates


class SiteClients(ClientDesk):
    def __init__(
        self, step: Step, options: SitesOptions, agreement: Agreement, membership: SiteMembership, gateways: Gateways
    ) -> None:
        self._agreement = agreement
        self._membership = membership
        self._gateways = gateways
        self._options = options
        self._wishes = SharedWishes(agreement, self._marks)
        self._base: dict[Origin, Reached] | None = None
        serving = Serving("sites", offered(options), (options.replicas - 1) // 2, receipts=RECEIPTS)
        sessions = ClientSessions(serving, self, self._wishes)
        self._items: deque[KeptItem] = deque()
        """What the site keeps, as sessions are given it."""
        self._attending: dict[str, Attend] = {}
        """Clients that are not served yet."""
        self._patient: dict[tuple[Origin, int], None] = {}
        """Publications whose receipts nobody waits for."""
        self._strangers: dict[str, None] = {}
        """Clients that another site served before."""
        self._gone: dict[str, _Gone] = {}
        self._given_up: list[str] = []
        self._looked_at = 0
        self._bytes = 0
        self._released_no = 0
        self._held = ""
        """Why the site decides nothing; empty while it does."""
        agreement.stalled = self._stalled
        self._pressure = BackPressure(options.buffer, self._weighs_on)
        super().__init__(
            step, sessions, publish=self._publish, attend=self._attends, successors=lambda: membership.successors
        )

    @property
    def is_ready(self) -> bool:
        state = self._agreement.state
        return self._membership.is_seated and state.is_in and bool(state.leader) and not self._held

    # -- what the site has decided -------------------------------------------------------------------------------------

    def entered(self, news: Entered) -> None:
        bundle = news.bundle
        session = self._sessions.publisher_of(bundle)
        is_patient = self._patient.pop((bundle.origin, bundle.first), 0) is None
        if session is not None:
            item = KeptItem(bundle, 0, None, not is_patient)
            item.client = session
            self._sessions.show(item, self._step.out)  # to nobody: its receipt

    def placed(self, news: PlacedBundle) -> None:
        """Shown at once: it is decided, and whatever it may depend on was placed before."""
        self._base = None
        self._bytes += news.bundle.cost
        item = _item(news)
        picks = {}
        for name, offsets in self._wishes.table.matches(news.bundle).items():
            session = self._sessions.all[name]
            if not session.has(news.bundle):
                item.readers = (*item.readers, session)
                if offsets is not None:
                    picks[name] = offsets
        item.picks = picks or None
        self._items.append(item)
        self._sessions.show(item, self._step.out)

    def noted(self, news: WishNoted) -> None:
        if news.life == self._agreement.life:
            self._sessions.confirm(self._wishes.noted(news.wish), self._step.out)

    def restored(self) -> None:
        """Publications were skipped: whoever reads here has to come again, and is given what the site keeps."""
        self._base = None
        for name in list(self._sessions.all):
            self.cut_off(name, "this broker has missed something that its site has")
        self._items = deque([_item(placed) for placed in self._agreement.state.recent])
        for item in self._items:
            item.shown = True

    def _marks(self) -> dict[Origin, Reached]:
        if self._base is None:
            self._base = dict(self._agreement.state.marks)
        return self._base

    # -- what clients say ----------------------------------------------------------------------------------------------

    def _publish(self, session: ClientSession, message: Publish) -> None:
        bundle, intake = message.bundle, self._agreement.state.intake
        if intake.has(bundle):
            self._sessions.known(session, bundle, everywhere=False)
        else:
            if not message.prompt:
                self._patient[bundle.origin, bundle.first] = None
            begins = session.name in self._strangers and bundle.origin not in intake.reached
            self._agreement.propose(Entering(bundle, begins))

    def _stalled(self) -> None:
        """Most of the site are missing: clients are told that publications wait, and why."""
        brokers = self._agreement.state.brokers
        missing = ", ".join([name for name in brokers if self._membership.is_unheard(name)]) or "unknown"
        site = self._membership.site
        self._hold(f"the site {site} waits until most of its {len(brokers)} brokers are back; missing: {missing}")

    def _hold(self, reason: str) -> None:
        if reason != self._held:
            self._held = reason
            self._step.note("note", reason or f"the site {self._membership.site} has a leader")
            self._step.out.extend([Send(name, HoldTold(reason)) for name in self._sessions.all])

    def _attends(self, session: ClientSession, message: Attend) -> None:
        Owed(message)  # now, while it is its sender that is blamed
        if self._held:
            self._step.out.append(Send(session.name, HoldTold(self._held)))
        self._attending[session.name] = message

    def up(self, event: LinkUp) -> None:
        if event.peer in self._sessions.all:
            self.leave(event.peer)
        super().up(event)

    def leave(self, name: str) -> None:
        """It may return, here or elsewhere in the site."""
        session = self._sessions.all[name]
        self._attending.pop(name, None)
        self._strangers.pop(name, None)
        self._pressure.forget(name)
        if session.attending and session.confirmed:
            gone = _Gone(self._floor_of(session), tuple(session.confirmed))
            self._forget(name)
            self._gone[name] = gone
            self._wishes.keep(name, gone.predicates)
            self._step.out.append(SetTimer(ClientOverDue(name), self._step.now_us + self._options.return_us))
        super().leave(name)

    def over(self, timer: ClientOverDue) -> None:
        """What it wants is withdrawn behind the word that nothing is kept for it: nobody takes it for one that misses
        nothing in between."""
        if timer.client not in self._gone:
            return
        if self._is_releasing:
            self._step.out.append(SetTimer(timer, self._step.now_us + BUSY_US))
            return
        gone = self._gone.pop(timer.client)
        self._given_up.append(timer.client)
        self._look_at_floor()
        self._wishes.let_go(timer.client, gone.predicates)

    def _forget(self, name: str) -> None:
        gone = self._gone.pop(name, None)
        if gone is not None:
            self._wishes.let_go(name, gone.predicates)

    # -- the end of a step ---------------------------------------------------------------------------------------------

    def serve(self) -> None:
        super().serve()
        if self._held and self._agreement.has_leader:
            self._hold("")
        if self._attending and self.is_ready:
            for name, message in list(self._attending.items()):
                resumed = self._can_resume(name, message)
                if not resumed or self._is_covered(message):
                    del self._attending[name]
                    self._serve(self._sessions.all[name], message, resumed)

    def _can_resume(self, name: str, message: Attend) -> bool:
        """Whether all that it may have missed is kept: for the life that served it, and for the client."""
        state, home = self._agreement.state, _home_of(message)
        return not message.subscriptions or (home in state.floors and state.given_up.get(name) != home)

    def _is_covered(self, message: Attend) -> bool:
        """Whether all is placed here that it has seen, or knows to be before its subscriptions: otherwise that could be
        shown to it now, behind what came after it."""
        marks = self._agreement.state.marks
        told: list[Mark] = [*message.received, *(mark for held in message.subscriptions for mark in held.base)]
        return all(marks.get(mark.origin, 0) >= mark.seq for mark in told)

    def _serve(self, session: ClientSession, message: Attend, resumed: bool) -> None:
        out = self._step.out
        self._sessions.welcome(session, message, self._membership.successors, resumed, out)
        if resumed and message.subscriptions:
            owed = Owed(message)
            for item in self._items:
                if offsets := owed.offsets(item.bundle):
                    self._sessions.hand_over(session, item, offsets, out)
        self._forget(session.name)
        if message.tried and message.tried[0] not in self._agreement.state.brokers:
            self._strangers[session.name] = None
        if self._floor() < self._agreement.state.floors.get(self._agreement.life, 0):
            self._look_at_floor()

    def tidy(self) -> None:
        """Let go of what nobody in the site needs, and hold back whoever brings more than the site can keep."""
        state = self._agreement.state
        first = state.recent[0].position if state.recent else state.position + 1
        while self._items and self._items[0].no < first:
            self._items.popleft()
        new = state.position - self._looked_at
        if new >= RELEASED_TOGETHER or self._bytes >= RELEASED_BYTES or len(state.recent) > self._options.buffer // 4:
            self._look_at_floor()
        self._push_back()

    def _floor_of(self, session: ClientSession) -> int:
        for items in (session.given, session.backlog):
            if items:
                return items[0].no - 1
        return self._agreement.state.position

    def _floor(self) -> int:
        """Nobody here needs anything up to this position."""
        floors = [self._floor_of(session) for session in self._sessions.all.values()]
        return min([self._agreement.state.position, *floors, *(gone.floor for gone in self._gone.values())])

    @property
    def _is_releasing(self) -> bool:
        """The last word on it is not decided yet."""
        return self._agreement.state.nos.get(self._agreement.life, 0) < self._released_no

    def _look_at_floor(self) -> None:
        agreement, state = self._agreement, self._agreement.state
        before = state.floors.get(agreement.life)
        if before is None or self._is_releasing:
            return
        self._looked_at, self._bytes = state.position, 0
        floor = self._floor()
        if floor != before or self._given_up:
            self._released_no = agreement.next_no()
            agreement.propose(Releasing(agreement.life, self._released_no, floor, tuple(self._given_up)))
            self._given_up = []

    # -- too much at once ----------------------------------------------------------------------------------------------

    def _push_back(self) -> None:
        state = self._agreement.state
        crowd = max([len(state.recent), self._agreement.waiting, *(len(link.out) for link in state.links.values())])
        if crowd > self._options.buffer:
            peers = [self._gateways.peer_of(site) for site in state.links]
            publishers = [name for name, session in self._sessions.all.items() if session.last]
            for name in (*publishers, *(peer for peer in peers if peer is not None)):
                self._pressure.check(name, self._weighs_on(name), self._step.out)
        self._pressure.release(self._step.out)

    def forget_peer(self, name: str) -> None:
        self._pressure.forget(name)

    def _weighs_on(self, source: str) -> int:
        """What waits because of it. What waits for a site does not count against that one, or two would wait for each
        other; but the root gives back, ordered, what it was given."""
        state = self._agreement.state
        toward = None if state.is_total and not state.parent else self._gateways.site_of(source)
        waiting = [len(link.out) for site, link in state.links.items() if site != toward]
        return max([len(state.recent), self._agreement.waiting, *waiting])

    # -- what sessions of clients ask (`RetentionPort`) ----------------------------------------------------------------

    @property
    def next_no(self) -> int:
        return self._agreement.state.position + 1

    @property
    def first_held_back(self) -> int | None:
        return None

    def show(self, item: KeptItem) -> None:
        item.shown = True

    def add_reader(self, item: KeptItem, session: ClientSession) -> None:
        """The site keeps it anyway."""

    def took(self, item: KeptItem) -> bool:
        return False


def _item(placed: PlacedBundle) -> KeptItem:
    item = KeptItem(placed.bundle, placed.hops, None, False, placed.tseq)
    item.no = placed.position
    return item


def _home_of(message: Attend) -> str:
    """The life of the broker that served this client last."""
    return life_of(message.tried[0], message.home) if message.tried else ""


def offered(options: SitesOptions) -> tuple[Guarantee, ...]:
    if options.order == "total":
        return tuple(Guarantee)
    return (Guarantee.EVENTUAL, Guarantee.FIFO) if options.order == "fifo" else (Guarantee.EVENTUAL,)
