"""One broker of a causal multicast: its options, its parts, and how it handles publications and new links.

A stack is a subclass that brings an order; it overrides `_greet` for its own messages on a new link.
`multicast_stack` registers such a stack with the properties that all causal multicasts share.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice, takewhile
from typing import Annotated, Any, Final, Generic, NamedTuple

import msgspec

from resprout.core.contract import Machine, ProtocolMessage, Retire
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.seen import Seen, SeenRanges
from resprout.edge.broker.ghosts import home_of
from resprout.edge.broker.owed import Owed
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import CLIENT_MESSAGES, Attend, Publish, Serving, Successor
from resprout.spread.messages import InterestConfirmed, Interested
from resprout.stacks.desk import Handler
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat, Family, Stack, Survival, WaitTimes
from resprout_lab.blocks import Period
from resprout_lab.blocks.causal_order import ITEMS_HELD_MAX, check_changes
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.detector import SuspectDue
from resprout_lab.blocks.multicast.around import AllFlushed, BypassTree, Met
from resprout_lab.blocks.multicast.copies import Copy, Entries, LinkCopies
from resprout_lab.blocks.multicast.late import LatePlaces, in_order
from resprout_lab.blocks.multicast.messages import (
    MULTICAST_MESSAGES,
    Around,
    Flushed,
    GroupsTold,
    MulticastMessage,
    NotOwed,
    in_parts,
)
from resprout_lab.blocks.multicast.order import Arrival, M, MulticastOrder
from resprout_lab.blocks.recorded import ASKING_MESSAGES, Asking, RecordedSubscriptions
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.blocks.serving import ServingShell
from resprout_lab.blocks.subscriptions import Matches, Subscriptions
from resprout_lab.blocks.tree import TREE_MESSAGES, LinkBegan, LinkEnded, PlacesNear

GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL)
OWED_KEPT: Final = 10_000
"""Most bundles kept for an unknown neighbour of a dead broker after all known ones have them."""
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)

_ONE_DEATH: Final = (
    "one broker may die: what two neighbours had that died together is lost, and what depends on that waits"
)


class MulticastOptions(msgspec.Struct, frozen=True):
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may wait here, for their dependencies, for readers or for room on links,
    before it is held back."""
    held_back: Annotated[int, msgspec.Meta(ge=1)] = ITEMS_HELD_MAX
    """Bundles of all neighbours that may wait for their dependencies. With one more, the broker begins a new life."""
    suspect_us: Period = 4_000_000
    """Time without a message after which a broker is passed over. A living broker that is passed over begins a new
    life, so this must be longer than any pause that is no failure, and than links take to reconnect after it."""


class _Owed(NamedTuple):
    life: int
    """Life of the dead neighbour."""
    copies: list[Copy]
    unpaid: dict[str, None]
    """Neighbours of the dead broker to which this broker has no link yet. There may be more, which joined just before
    it died."""
    recorded: Subscriptions
    """Subscriptions here, and beyond here, that the dead broker had confirmed."""


class MulticastBroker(ServingShell, Generic[M]):
    def __init__(
        self,
        stack: str,
        seat: BrokerSeat,
        order: MulticastOrder[M],
        kind: type[M],
        options: MulticastOptions,
        *,
        marks: Seen | None = None,
        wishes: RecordedSubscriptions | None = None,
        handlers: Mapping[type, Handler] | None = None,
        timers: Mapping[type, Any] | None = None,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`kind` carries publications, `marks` says how far publishers have come here. `handlers` handles further
        messages of neighbours, `timers` further timers, and `at_end` is called at the end of each step."""
        self._marks = marks or Seen()
        self._wishes = wishes or RecordedSubscriptions(self._marks.marks)
        super().__init__(Serving(stack, GUARANTEES, 1, receipts=RECEIPTS), self._wishes, options.buffer)
        self._tree = tree = BypassTree(seat, self._step, self._outbox, options.suspect_us)
        self._asking = asking = Asking(self._step, self._sessions, self._wishes, self._ask)
        self._order = order
        self._name, self._incarnation = seat.name, seat.incarnation
        self._seen = SeenRanges()
        """Publications that were delivered here."""
        self._copies = LinkCopies(self._show_safe)
        self._untold: dict[str, None] = {}
        """Links that have not sent all subscriptions behind them yet: all publications go there."""
        self._unsafe: deque[Copy] = deque()
        """Publications of clients here that no other broker is known to have."""
        self._own_sent: dict[str, int] = {}
        """Last publication of a client here that was sent over a link (`Copy.no`), by link."""
        self._owed: dict[str, _Owed] = {}
        """Publications that a dead neighbour may have owed to its neighbours and clients, and all later ones, by dead
        neighbour."""
        self._uncertain: list[Arrival[M]] = []
        """Publications that came over links around a dead broker. They wait outside all bounds, because messages of
        their neighbour must be handled until it says `Flushed`."""
        self._unskipped: Entries = []
        """Entries that were skipped on such links: another neighbour of the dead broker may still send the messages."""
        self._late = LatePlaces(OWED_KEPT)
        self._told_passed: dict[str, int] = {}
        """Version of the clock of which a neighbour was last told what it is not owed, by link."""
        self._rests_on = 2
        """Number of brokers that have the publication that is shown next."""
        self._sessions.copies_of = lambda item: self._rests_on
        self._open(
            tree,
            {
                **asking.handlers,
                kind: self._hear,
                Interested: self._asked,
                GroupsTold: self._told,
                NotOwed: self._not_owed,
                Progress: self._got,
                **(handlers or {}),
            },
            publish=self._publish,
            is_ready=lambda: tree.is_in,
            door=self._is_open_to,
            welcome=self._welcome,
            successors=lambda: tree.successors,
            timers={SuspectDue: tree.detector.due, **(timers or {})},
            outcomes={LinkBegan: self._began, LinkEnded: self._ended, Met: self._meet, AllFlushed: self._all_flushed},
            news=self._tell_taken,
            at_end=(at_end, (self._wishes.outbound, asking.ask), self._tell_copies),
        )

    # -- publications --------------------------------------------------------------------------------------------------

    def _publish(self, session: ClientSession, message: Publish) -> None:
        """Take a publication of a client here. It depends only on what was delivered here, so it is delivered with its
        number; it is shown, and called safe, when another broker has it."""
        bundle = message.bundle
        self._order.check_room(bundle)
        if self._seen.is_new(bundle):
            item = KeptItem(bundle, 0, session.name, message.prompt)
            copy = self._copy(item, self._order.make(bundle))
            self._kept.keep(item)
            self._unsafe.append(copy)
            self._pass_on(copy, self._wishes.table.matches(bundle))
            self._show_safe()
        elif not any(bundle == copy.item.bundle for copy in self._unsafe):
            self._sessions.known(session, bundle, everywhere=False)  # it came another way, or was here before

    def _copy(self, item: KeptItem, message: M) -> Copy:
        return self._copies.make(item, message, message.checked_number(), self._order.entries(message))

    def _show_safe(self) -> None:
        while self._unsafe and (self._unsafe[0].others or not self._is_waited_for(self._unsafe[0])):
            copy = self._unsafe.popleft()
            self._rests_on = 2 if copy.others else 1
            self._show(copy.item, self._wishes.table.matches(copy.item.bundle))
            self._kept.let_go(copy.item)
        self._rests_on = 2

    def _is_waited_for(self, copy: Copy) -> bool:
        """Whether a neighbour was sent it or will be, as a neighbour of a dead broker. A newcomer that came later is
        not."""
        return bool(self._tree.links) and bool(copy.lacking or any(owed.unpaid for owed in self._owed.values()))

    def _show_counted(self, message: M) -> None:
        """Show the publications that this message counts first: its sender has them, although its acknowledgement may
        come later."""
        counted = self._order.counted(message)
        last = 0
        if counted:
            for place, copy in enumerate(self._unsafe, 1):
                if copy.number <= counted.get(copy.message.group, 0):
                    last = place
        for copy in islice(self._unsafe, last):
            copy.others += 1
        self._show_safe()

    def _hear(self, peer: Peer, message: M) -> None:
        """Handle a publication of a neighbour: pass it on, and show it to readers here in its turn."""
        item = KeptItem(message.bundle, message.hops, peer.name, False)
        copy = self._copy(item, _one_hop_on(message))
        if any(not 0 <= place < len(copy.entries) for place in message.skipped):
            raise PeerError(f"{message.bundle!r} marks as skipped what it does not name")
        is_known = self._order.is_known(message.group, message.sender, copy.number)
        if message.sender == self._order.member and not is_known:
            raise PeerError(f"{message.sender} has not multicast number {copy.number} to {message.group!r}")
        skipped = [copy.entries[place] for place in message.skipped]
        arrival = Arrival(message, copy.number, copy)
        if self._tree.is_uncertain(peer.name):
            self._copies.came(peer.name, copy)
            if not is_known:
                item.needed += 1
                self._order.note(arrival)
                self._uncertain.append(arrival)
                self._unskipped.extend(skipped)
            return
        self._skip(skipped)
        if is_known:
            self._copies.came(peer.name, copy)
        elif not self._order.put(arrival):
            self._step.end_life(Retire("too much that cannot be delivered waits here"))
            return
        else:
            self._copies.came(peer.name, copy)
            self._kept.keep(item)
        self._deliver()

    def _pass_on(self, copy: Copy, wanted: Matches) -> None:
        """Send a publication to the neighbours that want it. One of a client here goes to at least one, for a second
        copy."""
        for dead, owed in list(self._owed.items()):
            owed.copies.append(copy)
            if not owed.unpaid and len(owed.copies) > OWED_KEPT:
                self._let_go(dead)
        source, links = copy.item.source, self._tree.links
        names = [name for name in links if name != source and (name in wanted or name in self._untold)]
        if copy.is_late:
            names = [name for name in names if self._tree.is_around(name)]
        if not names and not copy.item.hops:
            names = list(islice(links, 1))
        for name in names:
            self._send(name, copy)

    def _send(self, name: str, copy: Copy) -> None:
        """Send a publication over a link. One of a client here takes along those before it that no other broker has,
        because it depends on them and could otherwise survive this broker without them."""
        if not copy.item.hops:
            last, self._own_sent[name] = self._own_sent.get(name, 0), copy.no
            lone = [one for one in takewhile(lambda one: one.no > last, reversed(self._unsafe)) if one.no < copy.no]
            for before in reversed(lone):
                self._send_one(name, before)
        self._send_one(name, copy)

    def _send_one(self, name: str, copy: Copy) -> None:
        skipped = self._copies.sent(name, copy)
        message = msgspec.structs.replace(copy.message, skipped=skipped) if skipped else copy.message
        self._passing.pass_on(name, copy.item, message)

    def _deliver(self) -> None:
        """Deliver what can be delivered. A bundle that another member has multicast as well, because its publisher
        changed brokers, is shown once. Which of them is the repeat is only known here, since the other one may wait
        longer."""
        while (arrival := self._order.take()) is not None:
            copy = arrival.copy
            if self._unsafe:
                self._show_counted(arrival.message)
            wanted = self._wishes.table.matches(copy.item.bundle)
            self._pass_on(copy, wanted)
            if self._seen.is_new(copy.item.bundle):
                self._show(copy.item, {} if copy.is_late else wanted)
                if copy.is_late:
                    self._late.put(copy)
            self._kept.let_go(copy.item)

    def _show(self, item: KeptItem, wanted: Matches) -> None:
        """Show a publication to its present readers. Some may have come or gone while it was held back."""
        self._marks.raise_to(item.bundle.origin, item.bundle.last)
        self._show_to(wanted, item)

    def _skip(self, entries: Entries) -> None:
        self._late.skipped([one for one in entries if self._order.counts_less(*one)], self._kept.next_no)
        self._order.skip(entries)

    # -- links ---------------------------------------------------------------------------------------------------------

    def _began(self, outcome: LinkBegan) -> None:
        """Begin a new link. Nothing that has passed before is owed over it."""
        self._begin(outcome.name)

    def _begin(self, name: str) -> None:
        self._copies.begin(name)
        self._own_sent.pop(name, None)
        self._told_passed.pop(name, None)
        self._untold[name] = None
        self._greet(name)
        self._asking.begin_link(name)
        self._wishes.outbound.append((name, GroupsTold()))

    def _greet(self, name: str) -> None:
        """Send the first messages of the stack over a new link."""

    def _ask(self, name: str, message: ProtocolMessage) -> None:
        if name not in self._tree.links:  # it was set aside
            return
        if isinstance(message, InterestConfirmed):
            told, self._told_passed[name] = self._told_passed.get(name, 0), self._order.version
            for part in in_parts(self._order.since(told)):
                self._outbox.send(name, NotOwed(part))
        self._outbox.send(name, message)

    def _not_owed(self, peer: Peer, message: NotOwed) -> None:
        check_changes(message.clocks)
        passed = [((group, member), number) for group, rows in message.clocks for member, number in rows]
        if self._tree.is_uncertain(peer.name):
            self._unskipped.extend(passed)
        else:
            self._skip_all(passed)

    def _asked(self, peer: Peer, message: Interested) -> None:
        self._order.joined()
        self._asking.handlers[Interested](peer, message)

    def _told(self, peer: Peer, message: GroupsTold) -> None:
        self._untold.pop(peer.name, None)
        self._settle()

    def _ended(self, outcome: LinkEnded) -> None:
        name = outcome.name
        copies = self._copies.end(name)
        self._untold.pop(name, None)
        self._passing.end(name)
        if (others := self._tree.others(name)) is not None:
            life = self._tree.last_life(name)
            self._owed[name] = _Owed(life, copies, dict.fromkeys(others), self._wishes.recorded_at(name))
            self._wishes.set_aside(name, f"{name}/{life}")
            self._settle()
        else:
            self._asking.end_link(name)
        self._show_safe()

    # -- around the dead -----------------------------------------------------------------------------------------------

    def _meet(self, outcome: Met) -> None:
        if not self._copies.has(outcome.name):
            self._begin(outcome.name)
        if (owed := self._owed.get(outcome.dead)) is not None:
            for copy in owed.copies:
                self._send(outcome.name, copy)
            owed.unpaid.pop(outcome.name, None)
        self._tree.owed_sent(outcome)

    def _all_flushed(self, outcome: AllFlushed) -> None:
        uncertain, self._uncertain = self._uncertain, []
        unskipped, self._unskipped = self._unskipped, []
        for arrival in uncertain:
            copy = arrival.copy
            copy.is_late = not self._order.counts_less(arrival.entry, copy.number) or not self._was_owed(copy)
            copy.item.needed -= 1
            self._kept.keep(copy.item)
            self._order.put(arrival, is_forced=True)
        self._deliver()
        self._skip_all(unskipped)
        self._late.settle()
        self._tree.answer(outcome)
        self._settle()

    def _was_owed(self, copy: Copy) -> bool:
        """Whether a dead broker would have sent a publication here."""
        return any(owed.recorded.matches(copy.item.bundle) for owed in self._owed.values())

    def _skip_all(self, skipped: Entries) -> None:
        """Skip entries whose messages no broker has, except those that have come and are held back."""
        while skipped:
            waiting = self._order.first_held
            absent = [one for one in skipped if one[1] < waiting.get(one[0], one[1] + 1)] or skipped
            self._skip(absent)
            self._deliver()
            skipped = [one for one in skipped if self._order.counts_less(*one)]

    def _settle(self) -> None:
        """Finish a bypass: the substitute keeps publications for clients of the dead broker, and the others need
        nothing of it any more."""
        for dead, owed in list(self._owed.items()):
            ghost = f"{dead}/{owed.life}"
            if self._wishes.has_link(ghost) and self._tree.is_bypassed(dead) and not self._untold_around(dead):
                if self._tree.is_substitute(dead):
                    self._asking.confirm(self._wishes.stop_asking(ghost))
                    self._bypassed(dead, owed.life)
                else:
                    self._let_go(dead)

    def _bypassed(self, dead: str, life: int) -> None:
        """Take the place of a dead broker, as its substitute."""

    def _untold_around(self, dead: str) -> bool:
        return any(name in self._untold for name in self._tree.others(dead) or ())

    def _let_go(self, dead: str) -> None:
        owed = self._owed.pop(dead)
        self._asking.confirm(self._wishes.remove_link(f"{dead}/{owed.life}"))

    def _got(self, peer: Peer, message: Progress) -> None:
        self._copies.hear(peer.name, message)

    def _tell_copies(self) -> None:
        for name, got in self._copies.news():
            self._outbox.pass_by(name, got)

    def _tell_taken(self, everything: bool) -> bool:
        """Tell neighbours what readers here have taken. Return whether something is left to tell soon."""
        if everything:
            for name, got in self._copies.news(everything=True):
                self._outbox.pass_by(name, got)
        return self._copies.is_behind

    # -- clients of the dead -------------------------------------------------------------------------------------------

    def _is_open_to(self, session: ClientSession, attend: Attend, waited_us: int) -> bool | Successor:
        """Whether a client may be served now, or where it has to go. Clients of a dead neighbour continue at its
        substitute once everything that they may have seen is there. Those of an earlier life of this broker are sent to
        a neighbour, which has what they may lack."""
        if not attend.tried or attend.anyhow:
            return True
        home = home_of(attend)
        if home.name == self._name and home.incarnation < self._incarnation and attend.subscriptions:
            return next(iter(self._tree.successors), True)
        if (substitute := self._tree.substitute(home.name, home.incarnation)) is not None:
            return substitute
        return self._tree.is_replaced(home.name, home.incarnation) or not self._tree.is_near(home.name)

    def _welcome(self, session: ClientSession, attend: Attend) -> None:
        """Hand over to a client of a dead neighbour what it has not received, in the order in which it was shown here.
        Publications that are not shown yet follow in their turn."""
        home, out = home_of(attend), self._step.out
        owed = self._owed.get(home.name)
        is_known = owed is not None and owed.life == home.incarnation
        is_known = is_known and self._tree.is_replaced(home.name, home.incarnation)
        resumed = is_known or not attend.subscriptions
        self._sessions.welcome(session, attend, self._tree.successors, resumed, out)
        if owed is None or not is_known or not attend.subscriptions:
            return
        lacking = Owed(attend)
        for copy in in_order([copy for copy in owed.copies if copy.item.shown]):
            if offsets := lacking.offsets(copy.item.bundle):
                self._sessions.hand_over(session, copy.item, offsets, out)


def member_of(seat: BrokerSeat) -> str:
    """Return the name of this life of a broker. A broker that returns gets another name, and numbers from one again."""
    return f"{seat.name}/{seat.incarnation}"


def _one_hop_on(message: M) -> M:
    return msgspec.structs.replace(message, hops=message.hops + 1, skipped=())


def multicast_stack(
    name: str,
    make_broker: Callable[[BrokerSeat, MulticastOptions, random.Random], Machine],
    carrier: type[MulticastMessage],
    about_members: tuple[type, ...] = (),
) -> Stack[MulticastOptions]:
    """Register a stack. `carrier` brings publications; `about_members` are further messages between its brokers."""
    return Stack(
        name=name,
        guarantees=GUARANTEES,
        options=MulticastOptions,
        messages=(*CLIENT_MESSAGES, *TREE_MESSAGES, *MULTICAST_MESSAGES, carrier, *about_members),
        make_broker=make_broker,
        receipts=RECEIPTS,
        families={
            Family.PUBLICATIONS: (carrier,),
            Family.MEMBERSHIP: (*TREE_MESSAGES, PlacesNear, *about_members),
            Family.SUBSCRIPTIONS: (*ASKING_MESSAGES, GroupsTold, NotOwed),
            Family.REPORTS: (Progress,),
            Family.REPAIR: (Around, Flushed),
            Family.CLIENTS: CLIENT_MESSAGES,
        },
        layers={"resprout_lab.blocks.crossing": "order"},
        survives=lambda options: Survival(
            faults=1, silent_hosts=True, freezes=True, clients_restart_at_home=True, joins=True
        ),
        drawn={"buffer": (10_000, 10_000, 10), "held_back": (100_000, 100), "suspect_us": (4_000_000, 6_000_000)},
        waits=lambda options: WaitTimes(death_us=options.suspect_us),
        known_limits={"lost": _ONE_DEATH},
    )
