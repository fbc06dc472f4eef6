"""One broker of a causal multicast: options, parts, what it does with a publication, what it says over a new link.

A stack is a subclass that brings an order; what it alone says over a new link goes into `_greet`. `multicast_stack`
registers such a stack with what all causal multicasts offer, survive and say.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Annotated, Any, Final, Generic, NamedTuple

import msgspec

from resprout.core.contract import Machine, Retire
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.seen import SeenRanges
from resprout.edge.broker.ghosts import home_of
from resprout.edge.broker.owed import Owed
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import CLIENT_MESSAGES, Attend, Publish, Serving, Successor
from resprout.stacks.desk import Handler
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat, Family, Stack, Survival, WaitTimes
from resprout_lab.blocks import Period
from resprout_lab.blocks.causal_order import ITEMS_HELD_MAX, Changes, check_changes
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.detector import SuspectDue
from resprout_lab.blocks.multicast.around import BypassTree, Copy, LinkCopies, Met
from resprout_lab.blocks.multicast.messages import (
    MULTICAST_MESSAGES,
    Around,
    Flushed,
    MulticastMessage,
    NotOwed,
    in_parts,
)
from resprout_lab.blocks.multicast.order import Arrival, M, MulticastOrder
from resprout_lab.blocks.recorded import RecordedSubscriptions
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.blocks.serving import ServingShell
from resprout_lab.blocks.tree import TREE_MESSAGES, LinkBegan, LinkEnded, PlacesNear

GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL)
OWED_KEPT: Final = 10_000
"""Bundles that are kept for a neighbour of a dead broker of which nobody has heard, after all others have them."""
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)

_ONE_DEATH: Final = (
    "one broker may die: what two neighbours had that died together is lost, and what depends on that waits"
)


class MulticastOptions(msgspec.Struct, frozen=True):
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may wait here, for what they depend on, for readers or for room on
    links, before it is held back."""
    held_back: Annotated[int, msgspec.Meta(ge=1)] = ITEMS_HELD_MAX
    """Bundles that may wait for what they depend on, from all neighbours together. With one more, the broker begins
    anew."""
    suspect_us: Period = 4_000_000
    """How long a broker may be silent before it is passed over. A broker that was passed over and lives begins anew, so
    this must be longer than any pause that is no failure, and than links take to connect again after it."""


class _Owed(NamedTuple):
    life: int
    """Of the dead neighbour."""
    copies: list[Copy]
    unpaid: dict[str, None]
    """Those that are no links of this broker yet. There may be more: who joined the dead one just before it died."""


class MulticastBroker(ServingShell, Generic[M]):
    def __init__(
        self,
        stack: str,
        seat: BrokerSeat,
        order: MulticastOrder[M],
        kind: type[M],
        options: MulticastOptions,
        *,
        handlers: Mapping[type, Handler] | None = None,
        timers: Mapping[type, Any] | None = None,
    ) -> None:
        """`kind` carries publications, `handlers` are for what else neighbours say, `timers` for what else is due."""
        self._wishes = RecordedSubscriptions()
        super().__init__(Serving(stack, GUARANTEES, 1, receipts=RECEIPTS), self._wishes, options.buffer)
        self._tree = tree = BypassTree(seat, self._step, self._outbox, options.suspect_us)
        self._order = order
        self._name, self._incarnation = seat.name, seat.incarnation
        self._seen = SeenRanges()
        """What was delivered here."""
        self._copies = LinkCopies(self._show_safe)
        self._unsafe: deque[Copy] = deque()
        """Publications of clients here that no other broker is known to have."""
        self._owed: dict[str, _Owed] = {}
        """By dead neighbour: what it may have owed to its others and to its clients, and all that has come since."""
        self._rests_on = 2
        """Brokers that have what is shown next."""
        self._sessions.copies_of = lambda item: self._rests_on
        self._open(
            tree,
            {kind: self._hear, NotOwed: self._pass_over, Progress: self._got, **(handlers or {})},
            publish=self._publish,
            is_ready=lambda: tree.is_in,
            door=self._is_open_to,
            welcome=self._welcome,
            successors=lambda: tree.successors,
            timers={SuspectDue: tree.detector.due, **(timers or {})},
            outcomes={LinkBegan: self._began, LinkEnded: self._ended, Met: self._meet},
            news=self._tell_taken,
            at_end=(self._tell_copies,),
        )

    # -- publications --------------------------------------------------------------------------------------------------

    def _publish(self, session: ClientSession, message: Publish) -> None:
        """Of a client here: it has seen nothing that was not delivered here, so this is delivered with its number; it
        is shown, and called safe, when another broker has it."""
        bundle = message.bundle
        self._order.check_room(bundle)
        if self._seen.is_new(bundle):
            item = KeptItem(bundle, 0, session.name, message.prompt)
            copy = self._copies.make(item, self._order.make(bundle))
            self._kept.keep(item)
            self._unsafe.append(copy)
            self._pass_on(copy)
            self._show_safe()
        elif not any(bundle == copy.item.bundle for copy in self._unsafe):
            self._sessions.known(session, bundle, everywhere=False)  # it came another way, or was here before

    def _show_safe(self) -> None:
        while self._unsafe and (self._unsafe[0].others or not self._is_waited_for(self._unsafe[0])):
            copy = self._unsafe.popleft()
            self._rests_on = 2 if copy.others else 1
            self._show(copy.item)
            self._kept.let_go(copy.item)
        self._rests_on = 2

    def _is_waited_for(self, copy: Copy) -> bool:
        """A neighbour was sent it, or will be: one of a dead neighbour. A newcomer that came later never is."""
        return bool(self._tree.links) and bool(copy.lacking or any(owed.unpaid for owed in self._owed.values()))

    def _show_counted(self, message: M) -> None:
        """What others count they have, even if their word for it takes a longer way: it must not be shown after what
        counts it."""
        counted = self._order.counted(message)
        last = 0
        if counted:
            for place, copy in enumerate(self._unsafe, 1):
                if copy.message.checked_number() <= counted.get(copy.message.group, 0):
                    last = place
        for copy in islice(self._unsafe, last):
            copy.others += 1
        self._show_safe()

    def _hear(self, peer: Peer, message: M) -> None:
        """Of a neighbour: on to the others at once, and to readers here in its turn."""
        bundle, number = message.bundle, message.checked_number()
        item = KeptItem(bundle, message.hops, peer.name, False)
        copy = self._copies.make(item, _one_hop_on(message))
        if self._order.is_known(message.group, message.sender, number):
            self._copies.came(peer.name, copy)
            return
        if message.sender == self._order.member:
            raise PeerError(f"{message.sender} has not multicast number {number} to {message.group!r}")
        if not self._order.put(Arrival(message, number, item)):
            self._step.end_life(Retire("too much that cannot be delivered waits here"))
            return
        self._copies.came(peer.name, copy)
        self._kept.keep(item)
        self._pass_on(copy)
        self._deliver()

    def _pass_on(self, copy: Copy) -> None:
        for dead, owed in list(self._owed.items()):
            owed.copies.append(copy)
            if not owed.unpaid and len(owed.copies) > OWED_KEPT:
                del self._owed[dead]
        for name in self._tree.links:
            if name != copy.item.source:
                self._send(name, copy)

    def _send(self, name: str, copy: Copy) -> None:
        self._copies.sent(name, copy)
        self._passing.pass_on(name, copy.item, copy.message)

    def _deliver(self) -> None:
        """A bundle that another member has multicast as well, because its publisher changed brokers, is shown once.
        Which of them is the repeat is not known before: the other one may wait for longer."""
        while (arrival := self._order.take()) is not None:
            if self._unsafe:
                self._show_counted(arrival.message)
            if self._seen.is_new(arrival.item.bundle):
                self._show(arrival.item)
            self._kept.let_go(arrival.item)

    def _show(self, item: KeptItem) -> None:
        """Its readers are those of this moment: while it was held back, some may have come and gone."""
        self._show_to(self._wishes.table.matches(item.bundle), item)

    # -- links ---------------------------------------------------------------------------------------------------------

    def _began(self, outcome: LinkBegan) -> None:
        """What was counted here before is not owed over this link; what is held back here may be."""
        self._copies.begin(outcome.name)
        self._greet(outcome.name)
        self._say_not_owed(outcome.name, self._order.passed)
        for arrival in self._order.held:
            self._send(outcome.name, self._copies.make(arrival.item, _one_hop_on(arrival.message)))

    def _ended(self, outcome: LinkEnded) -> None:
        copies = self._copies.end(outcome.name)
        if (others := self._tree.others(outcome.name)) is not None:
            self._owed[outcome.name] = _Owed(self._tree.last_life(outcome.name), copies, dict.fromkeys(others))
        self._passing.end(outcome.name)
        self._show_safe()

    def _greet(self, name: str) -> None:
        """What a stack says first over a new link."""

    def _meet(self, outcome: Met) -> None:
        if not self._copies.has(outcome.name):
            self._copies.begin(outcome.name)
            self._greet(outcome.name)
        if (owed := self._owed.get(outcome.dead)) is not None:
            for copy in owed.copies:
                self._send(outcome.name, copy)
            owed.unpaid.pop(outcome.name, None)
        else:
            self._say_not_owed(outcome.name, self._order.passed)
        self._tree.flushed(outcome)

    def _got(self, peer: Peer, message: Progress) -> None:
        self._copies.hear(peer.name, message)

    def _tell_copies(self) -> None:
        for name, got in self._copies.news():
            self._outbox.pass_by(name, got)

    def _tell_taken(self, everything: bool) -> bool:
        """Tell neighbours what readers here have taken; return whether something is left to be told soon."""
        if everything:
            for name, got in self._copies.news(everything=True):
                self._outbox.pass_by(name, got)
        return self._copies.is_behind

    # -- clients of the dead -------------------------------------------------------------------------------------------

    def _is_open_to(self, session: ClientSession, attend: Attend, waited_us: int) -> bool | Successor:
        """Clients of a neighbour that is gone wait until all has come that they may have seen. Those of an earlier life
        of this broker are sent to a neighbour, which has what they may lack."""
        if not attend.tried or attend.anyhow:
            return True
        home = home_of(attend)
        if home.name == self._name and home.incarnation < self._incarnation and attend.subscriptions:
            return next(iter(self._tree.successors), True)
        return self._tree.is_replaced(home.name, home.incarnation) or not self._tree.is_near(home.name)

    def _welcome(self, session: ClientSession, attend: Attend) -> None:
        """Hand over to a client of a dead neighbour what it has not received, in the order in which it was shown here.
        What is not shown yet comes in its turn."""
        home, out = home_of(attend), self._step.out
        owed = self._owed.get(home.name)
        is_known = owed is not None and owed.life == home.incarnation
        is_known = is_known and self._tree.is_replaced(home.name, home.incarnation)
        resumed = is_known or not attend.subscriptions
        self._sessions.welcome(session, attend, self._tree.successors, resumed, out)
        if owed is None or not is_known or not attend.subscriptions:
            return
        lacking = Owed(attend)
        items = {copy.item.no: copy.item for copy in owed.copies if copy.item.shown}
        for _, item in sorted(items.items()):
            if offsets := lacking.offsets(item.bundle):
                self._sessions.hand_over(session, item, offsets, out)

    def _pass_over(self, peer: Peer, message: NotOwed) -> None:
        check_changes(message.clocks)
        if self._order.counts_more_of(self._order.member, message.clocks):
            raise PeerError(f"{self._order.member} has not multicast all that")
        news = self._order.pass_over(message.clocks)
        for name in self._tree.links:
            if name != peer.name:
                self._say_not_owed(name, news)
        self._deliver()

    def _say_not_owed(self, name: str, clocks: Changes) -> None:
        for part in in_parts(clocks):
            self._outbox.send(name, NotOwed(part))


def member_of(seat: BrokerSeat) -> str:
    """The life of a broker: one that returns counts from one again, under another name."""
    return f"{seat.name}/{seat.incarnation}"


def _one_hop_on(message: M) -> M:
    return msgspec.structs.replace(message, hops=message.hops + 1)


def multicast_stack(
    name: str,
    make_broker: Callable[[BrokerSeat, MulticastOptions, random.Random], Machine],
    carrier: type[MulticastMessage],
    about_members: tuple[type, ...] = (),
) -> Stack[MulticastOptions]:
    """`carrier` brings publications; `about_members` is what else its brokers say to each other."""
    return Stack(
        name=name,
        guarantees=GUARANTEES,
        options=MulticastOptions,
        messages=(*CLIENT_MESSAGES, *TREE_MESSAGES, *MULTICAST_MESSAGES, carrier, *about_members),
        make_broker=make_broker,
        receipts=RECEIPTS,
        families={
            Family.PUBLICATIONS: (carrier,),
            Family.MEMBERSHIP: (*TREE_MESSAGES, NotOwed, PlacesNear, *about_members),
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
