"""One broker: its parts, put together, and what it does when links begin and end."""

import random
from typing import Any, Final

import msgspec

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, Serving
from resprout.spread.messages import Interested, Uninterested
from resprout.stacks.desk import Handler
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.detector import SuspectDue
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.serving import ServingShell
from resprout_lab.blocks.tree import LinkEnded
from resprout_lab.delta.forwarding import HopLink, ReliableForwarding
from resprout_lab.delta.messages import (
    ROUTED_MESSAGES,
    NodeStatus,
    RoutedClaim,
    RoutedCopies,
    RoutedHandover,
    RoutedHeal,
    RoutedMessage,
    RoutedPublication,
    RoutedRejoin,
    RoutedSubscription,
    RoutedUnsubscription,
    RoutesConfirmed,
)  # fmt: skip
from resprout_lab.delta.operations import (
    DeltaOptions,
    HealOperation,
    JoinOperation,
    PartitionTable,
    Parts,
    SubscribeOperation,
    UnsubscribeOperation,
)  # fmt: skip
from resprout_lab.delta.publishing import PublishOperation
from resprout_lab.delta.recovery import RecoveringTree, Synced
from resprout_lab.delta.returning import (
    ClaimOperation,
    HandoverOperation,
    KeptPublications,
    ReturningClients,
    ReturnOver,
)
from resprout_lab.delta.subscriptions import KnownSubscriptions, LocalWishes
from resprout_lab.delta.tree import HopDied, HopFound

GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.FIFO)
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class DeltaBroker(ServingShell):
    def __init__(self, seat: BrokerSeat, options: DeltaOptions, rng: random.Random) -> None:
        self._wishes = wishes = LocalWishes()
        super().__init__(Serving("delta", GUARANTEES, options.delta, receipts=RECEIPTS), wishes, options.buffer)
        step, outbox, delta = self._step, self._outbox, options.delta
        view = Neighbourhood(seat.first_place, delta + 1)
        known = KnownSubscriptions(view, delta)
        self._tree = tree = RecoveringTree(seat, step, outbox, view, known, options.suspect_us)
        self._forwarding = forwarding = ReliableForwarding(seat, delta, tree)
        self._partitions = partitions = PartitionTable(delta)
        self._is_operational = False
        self._returns = options.return_us > 0
        """Clients of a dead broker are given what they lack."""
        parts = Parts(
            seat, tree, forwarding, known, wishes, partitions, self._sessions, self._kept, self._passing, outbox, step
        )
        heal = HealOperation(parts)
        subscribing = SubscribeOperation(parts, heal)
        self.kept_publications = kept = KeptPublications(parts, options.return_us)
        self._returning = returning = ReturningClients(parts, kept)
        handover = HandoverOperation(parts, returning)
        self._publishing = PublishOperation(parts, options, kept)
        self._unsubscribing = UnsubscribeOperation(parts, heal)
        self._joining = JoinOperation(parts, self._became_operational)
        self._begin_for: dict[type, Any] = {Interested: subscribing.begin, Uninterested: self._unsubscribing.begin}
        forwarding.operations = {
            RoutedPublication: self._publishing,
            RoutedCopies: self._publishing,
            RoutedSubscription: subscribing,
            RoutedUnsubscription: self._unsubscribing,
            RoutedRejoin: self._joining,
            RoutedHeal: heal,
            RoutedClaim: ClaimOperation(parts, kept, returning, handover),
            RoutedHandover: handover,
        }
        routed: dict[type, Handler] = dict.fromkeys(ROUTED_MESSAGES, self._hear)
        self._open(
            tree,
            {**routed, RoutesConfirmed: self._confirmed, Progress: kept.hear, NodeStatus: self._status},
            publish=self._publishing.own.publish,
            is_ready=lambda: self._is_operational,
            door=self._is_open_to,
            welcome=returning.welcome,
            successors=lambda: tree.successors,
            timers={SuspectDue: tree.detector.due, ReturnOver: self._return_over},
            outcomes={
                HopFound: self._found,
                LinkEnded: lambda outcome: self._lost(outcome.name),
                HopDied: self._died,
                Synced: self._synced,
            },
            news=kept.tell,
            at_end=(
                (wishes.outbound, self._announce),
                lambda: returning.ask(forwarding.originate),
                self._tell_confirmed,
            ),
        )

    def status(self) -> StackStatus:
        return msgspec.structs.replace(super().status(), serving=self._is_operational)

    def _hear(self, peer: Peer, message: RoutedMessage) -> None:
        self._forwarding.receive(peer.name, message)

    def _announce(self) -> None:
        news = list(self._wishes.outbound)
        self._wishes.outbound.clear()
        for _, told in news:
            self._begin_for[type(told)](told)

    # -- links ---------------------------------------------------------------------------------------------------------

    def _found(self, outcome: HopFound) -> None:
        link = self._forwarding.links.get(outcome.name)
        if link is None:
            link = HopLink(outcome.name, self._tree.path(outcome.name)[0], outcome.is_operational)
            self._publishing.orphans.found(link)
            self._forwarding.links[link.name] = link
            for transit in self._partitions.open(outcome.name):
                self._forwarding.resume(transit)
            self._forwarding.reroute()
        elif outcome.is_operational:  # both have asked each other
            link.is_operational = True

    def _lost(self, name: str) -> None:
        self._passing.end(name)
        if (link := self._forwarding.unlink(name)) is not None:
            self._publishing.orphans.lost(link)
            self.kept_publications.lost(link)

    def _died(self, outcome: HopDied) -> None:
        self._lost(outcome.name)
        self._publishing.adopt()
        self._forwarding.reroute()

    def _status(self, peer: Peer, message: NodeStatus) -> None:
        self._forwarding.links[peer.name].is_operational = True

    def _confirmed(self, peer: Peer, message: RoutesConfirmed) -> None:
        self._forwarding.hear(self._forwarding.links[peer.name], message)

    def _tell_confirmed(self) -> None:
        for name, told in self._forwarding.news():
            self._outbox.pass_by(name, told)

    # -- to begin ------------------------------------------------------------------------------------------------------

    def _synced(self, outcome: Synced) -> None:
        for name in self._forwarding.links:
            self._outbox.send(name, NodeStatus())
        self._forwarding.is_holding = False
        if outcome.is_back:
            self.kept_publications.begin_return()
        for transit in self._forwarding.processing:
            self._forwarding.begin(transit, self._forwarding.recipients(transit))
        self._joining.begin()

    def _return_over(self, timer: ReturnOver) -> None:
        """Withdraw what earlier lives wanted, when nothing is kept for their clients any more."""
        if self.kept_publications.return_over(timer):
            self._unsubscribing.begin(Uninterested(0))

    def _became_operational(self) -> None:
        self._is_operational = True
        self._step.note("joined", "operational")

    # -- clients of the dead -------------------------------------------------------------------------------------------

    def _is_open_to(self, session: ClientSession, attend: Attend, waited_us: int) -> bool:
        """Not to clients of a broker nearby that may live, nor before everything has come that a client may lack."""
        if attend.tried and not attend.anyhow and self._tree.may_live(attend.tried[0], attend.home):
            return False
        is_new = not attend.tried or not attend.subscriptions or not self._returns
        return is_new or self._returning.is_ready(session, attend)
