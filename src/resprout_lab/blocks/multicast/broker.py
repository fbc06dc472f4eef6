"""One broker of a causal multicast: its parts, what it does with a publication, and what it says over a new link.

A stack is a subclass that brings an order. What it says over a new link beside all others goes into `_greet`.
"""

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, Generic, NamedTuple

import msgspec

from resprout.core.contract import Retire
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.seen import SeenRanges
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, Publish, Serving
from resprout.stacks.shell.desk import Handler
from resprout.stacks.shell.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.detector import SuspectDue
from resprout_lab.blocks.item import KeptItem
from resprout_lab.blocks.multicast.around import BypassTree, Met
from resprout_lab.blocks.multicast.copies import Copy, LinkCopies
from resprout_lab.blocks.multicast.messages import NotOwed, in_parts
from resprout_lab.blocks.multicast.options import MulticastOptions
from resprout_lab.blocks.multicast.order import Arrival, M, MulticastOrder
from resprout_lab.blocks.recorded import RecordedSubscriptions
from resprout_lab.blocks.serving import ServingShell
from resprout_lab.blocks.tree import LinkBegan, LinkEnded
from resprout_lab.blocks.vector_clock import Changes, check_changes

GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL)
OWED_KEPT: Final = 10_000
"""Bundles that are kept for a neighbour of a dead broker of which nobody has heard, after all others have them."""
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class _Owed(NamedTuple):
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
        self._seen = SeenRanges()
        """What was delivered here."""
        self._copies = LinkCopies(self._show_safe)
        self._unsafe: deque[Copy] = deque()
        """Publications of clients here that no other broker is known to have."""
        self._owed: dict[str, _Owed] = {}
        """By dead neighbour: what it may have owed to its others, and all that has come since."""
        self._sessions.copies_of = lambda item: 2 if tree.links else 1
        self._open(
            tree,
            {kind: self._hear, NotOwed: self._pass_over, Progress: self._got, **(handlers or {})},
            publish=self._publish,
            is_ready=lambda: tree.is_in,
            door=self._is_open_to,
            successors=lambda: tree.successors,
            timers={SuspectDue: tree.detector.due, **(timers or {})},
            outcomes={LinkBegan: self._began, LinkEnded: self._ended, Met: self._meet},
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
        while self._unsafe and (self._unsafe[0].others or not self._tree.links):
            item = self._unsafe.popleft().item
            self._show(item)
            self._kept.let_go(item)

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
            self._owed[outcome.name] = _Owed(copies, dict.fromkeys(others))
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

    # -- clients of the dead -------------------------------------------------------------------------------------------

    def _is_open_to(self, session: ClientSession, attend: Attend, waited_us: int) -> bool:
        """Clients of a neighbour that is gone wait until all has come that they may have seen."""
        if not attend.tried or attend.anyhow:
            return True
        home = attend.tried[0]
        return self._tree.is_replaced(home) or not self._tree.is_near(home)

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
