"""One broker: a node of the thesis with clients. `Algorithm` orders and forwards; here its parts are put together."""

import random
from collections import deque
from typing import Annotated, Final

import msgspec

from resprout.core.contract import ProtocolMessage, Recovered
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.seen import Seen
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Publish, Serving
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks import Period
from resprout_lab.blocks.causal_order import ITEMS_HELD_MAX
from resprout_lab.blocks.detector import SuspectDue
from resprout_lab.blocks.groups import GroupRoutes, GroupRow, TakingPart, TakingPartRecorded
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.blocks.serving import ServingShell
from resprout_lab.blocks.tree import LinkEnded
from resprout_lab.locamu.algorithm import Algorithm, Copy
from resprout_lab.locamu.copies import SentMessage
from resprout_lab.locamu.journal import ReturningClients, ReturnOver, StateJournal
from resprout_lab.locamu.messages import Carried, MissingRequest, PrefixesSkipped, ProcessedCounts
from resprout_lab.locamu.reports import CountsDue, PrefixesDue, StabilityReports
from resprout_lab.locamu.tree import ActiveChanged, BeginAnewDue, SafeNeighbourhood, SafeTree, TalkAgain, TalkBegan


class LocamuOptions(msgspec.Struct, frozen=True):
    f: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    """Brokers that may be down at once on any path of 2f + 1. Everybody knows the tree within 2f + 1 hops and talks to
    those within f + 1; headers grow with the number of those."""
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may be kept here, for others within f + 1 hops that may lack them, for
    what they depend on, for readers or for room on links, before it is held back. So much can be published while a
    broker is away: nothing is dropped, everybody waits for it then."""
    held_back: Annotated[int, msgspec.Meta(ge=1)] = ITEMS_HELD_MAX
    """Bundles that may wait for what they depend on, from all neighbours together. One more is dropped, unless it is
    in order, and its sender begins anew a second later."""
    suspect_us: Period = 2_000_000
    """How long a broker may be silent before it is bypassed. It doubles for a broker that was suspected and lives.
    Shorter: fewer messages wait for a dead broker, and more are sent twice around a living one."""
    return_us: Period = 30_000_000
    """How long a broker that has started again keeps messages for clients of its earlier lives."""


GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL)
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class LocamuBroker(ServingShell):
    def __init__(self, seat: BrokerSeat, options: LocamuOptions, rng: random.Random) -> None:
        self._shown = Seen()
        """How far each publisher has come at the readers here."""
        near = SafeNeighbourhood(seat.first_place, options.f)
        self.groups = groups = GroupRoutes(
            near, options.f + 1, self._tell_group, seen=self._shown.marks, changed=self._group_changed
        )
        super().__init__(Serving("locamu", GUARANTEES, options.f, receipts=RECEIPTS), groups, options.buffer)
        step, outbox = self._step, self._outbox
        self._faults = options.f
        self.tree = tree = SafeTree(seat, step, outbox, near, options.suspect_us)
        self.algorithm = algorithm = Algorithm(self, tree, groups, self._kept, self._passing, outbox, options.held_back)
        self._reports = reports = StabilityReports(step, tree.near, algorithm, outbox)
        self._unsafe: deque[SentMessage] = deque()
        """Processed, and not shown: it, or one before it, is at too few brokers."""
        self._returning = returning = ReturningClients(seat, step, self._sessions, options.return_us)
        self._journal = StateJournal(step, algorithm, tree, groups, returning.unread)
        self._lack_groups: dict[str, None] = {}
        """Neighbours that have begun to talk, and were not told who takes part in which group."""
        self._restored = 0
        """How many of these are from the journal: for clients of earlier lives, so nobody is served before."""
        self._rests_on = 1
        """Brokers that have what is shown next, at most f + 1."""
        self._sessions.copies_of = lambda item: self._rests_on
        tree.is_unheard_of = algorithm.has_never_heard_of
        self._open(
            tree,
            {
                Carried: lambda peer, message: algorithm.receive(peer.name, message),
                MissingRequest: lambda peer, message: self._answer(peer.name, message),
                ProcessedCounts: self._counted,
                PrefixesSkipped: lambda peer, message: reports.skip(peer.name, message),
                TakingPart: lambda peer, message: groups.heard(peer.name, message),
                TakingPartRecorded: lambda peer, message: groups.recorded(peer.name, message),
            },
            publish=self._publish,
            is_ready=lambda: self._knows_groups and not self._restored,
            welcome=returning.welcome,
            events={Recovered: self._recovered},
            timers={
                CountsDue: reports.counts_due,
                PrefixesDue: reports.prefixes_due,
                TalkAgain: tree.talk_again,
                BeginAnewDue: tree.begin_anew_due,
                SuspectDue: tree.detector.due,
                ReturnOver: self._return_over,
            },
            outcomes={
                LinkEnded: self._ended,
                TalkBegan: self._talk_began,
                ActiveChanged: self._active_changed,
            },
            at_end=(self._tell_groups, reports.tell_urgent),
        )

    # -- publications --------------------------------------------------------------------------------------------------

    def _publish(self, session: ClientSession, message: Publish) -> None:
        bundle = message.bundle
        if not self.algorithm.published.has(bundle):
            item = KeptItem(bundle, 0, session.name, message.prompt)
            self._kept.keep(item)  # until it is shown
            self.algorithm.publish(item)
        elif not any(copy.item.bundle == bundle for copy in self._unsafe):
            self._sessions.known(session, bundle, everywhere=False)

    def write(self, copy: Copy, numbers: dict[str, int]) -> None:
        self._journal.write_processed(copy, numbers)

    def refused(self, name: str) -> None:
        self.tree.begin_anew(name)

    def processed(self, copy: Copy, senders: list[str]) -> None:
        for sender in senders:
            self._reports.take_tokens(sender)
        self._reports.processed(senders, len(copy.path) <= self._faults)

    # -- what is shown -------------------------------------------------------------------------------------------------

    def deliver(self, message: SentMessage) -> None:
        self._unsafe.append(message)
        self._show_safe()

    def _show_safe(self) -> None:
        """Show what f + 1 brokers have, or all that live of those it was numbered for, in the order in which it was
        processed (L6)."""
        unsafe = self._unsafe
        while unsafe and self._is_safe(unsafe[0]):
            copy = unsafe.popleft()
            self._rests_on = min(self._faults, len(copy.had_by)) + 1
            if not self._restored or not self._was_shown(copy.item):
                self._show(copy.item)
            self._restored = max(0, self._restored - 1)
            if copy.item.hops == 0:
                self._kept.let_go(copy.item)

    def _show(self, item: KeptItem) -> None:
        self._shown.raise_to(item.bundle.origin, item.bundle.last)
        self._show_to(self._returning.readers(self.groups.readers.matches(item.bundle)), item)
        self._returning.shown(item)

    def _was_shown(self, item: KeptItem) -> bool:
        """It is in the journal twice, the second time as a late copy."""
        return item.bundle.last <= self._shown.mark(item.bundle.origin)

    def _is_safe(self, copy: SentMessage) -> bool:
        """A broker that joined later is not counted: the message was never numbered for it."""
        if len(copy.had_by) >= self._faults:
            return True
        return all(target in copy.had_by or self.tree.is_dead(target) for _, target in copy.lacking)

    def _counted(self, peer: Peer, message: ProcessedCounts) -> None:
        self._reports.heard(peer.name, message.counts)
        self._show_safe()

    # -- groups --------------------------------------------------------------------------------------------------------

    @property
    def _knows_groups(self) -> bool:
        """This broker is in the tree, and knows who takes part in which group."""
        return self.tree.is_in and (self.groups.is_known or self.tree.parent is None)

    def _tell_group(self, name: str, message: ProtocolMessage) -> None:
        self._outbox.pass_by(name, message)

    def _group_changed(self, source: str, is_all: bool, rows: tuple[GroupRow, ...]) -> None:
        self._journal.write_groups(source, is_all, rows)

    def _tell_groups(self) -> None:
        if self._lack_groups and self._knows_groups:
            for name in self._lack_groups:
                self.groups.begin(name)
            self._lack_groups.clear()
        self._sessions.confirm(self.groups.tell(), self._step.out)

    def _return_over(self, timer: ReturnOver) -> None:
        self._returning.over(timer)
        self.groups.leave_for_returning()

    # -- other brokers -------------------------------------------------------------------------------------------------

    def _talk_began(self, outcome: TalkBegan) -> None:
        self.algorithm.begin(outcome.name)
        if (message := self.tree.early.pop(outcome.name, None)) is not None:
            try:
                self._answer(outcome.name, message)
            except PeerError as error:
                self.tree.cut_off(outcome.name, str(error))

    def _answer(self, name: str, message: MissingRequest) -> None:
        if name in self.tree.near.own.neighbours:
            self._lack_groups[name] = None
        self._reports.missing(name, message)
        self.algorithm.asked(name)
        self._show_safe()

    def _ended(self, outcome: LinkEnded) -> None:
        self.algorithm.end(outcome.name)
        self.groups.end(outcome.name)
        self._lack_groups.pop(outcome.name, None)
        self._reports.end(outcome.name)

    def _active_changed(self, outcome: ActiveChanged) -> None:
        self._journal.write_places()
        for name in self.tree.active:
            self.algorithm.retransmit(name)
        self._show_safe()

    def _recovered(self, event: Recovered) -> None:
        """Show everything again: clients of earlier lives may not have it, or not know that it is safe."""
        if event.records:
            self._returning.stand_in()
        processed = self._journal.read(event.records)
        if processed is None:
            self._step.note("recovery", "what is on disk cannot be read")
            return
        for message in processed:
            if message.item.hops == 0:
                self._kept.keep(message.item)
            self._unsafe.append(message)
        self._restored = len(self._unsafe)
        self._show_safe()
