"""The operations of the report beside publishing, each with its procedures by the type of its messages: *SUB*, *US*,
*J* and *REJOIN*; and the end of a partition, which is of seed 001.

*Partitions*: partition islands and barriers, as seed 001 describes them.

An *island* is a row of up to delta dead brokers: it is passed over, and who returns from it is told what it missed
before it is sent anything (`recovery`). Whatever goes around an island is confirmed as if nothing had happened.

A *barrier* is a row of more. Nobody beyond it can be reached, or is even known here. The broker in front of it is its
detector. Subscriptions that should have gone beyond it are confirmed all the same, with the name of the barrier on
their confirmation, and kept here. When one of the barrier's brokers is back, they are sent on; when all of them are
confirmed, the barrier is over, and everybody is told (`RoutedHeal`). Until then, what is published beyond and comes
through those brokers is marked with the barrier: it has passed brokers that may not know those subscriptions, so
whoever has one that was confirmed with the same name is not shown it. Otherwise somebody could be shown the first and
the third of three publications, because of what others want, and never the second.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from resprout.core.errors import PeerError
from resprout.edge.broker.sessions import ClientSessions
from resprout.spread.messages import Interested, Uninterested
from resprout.stacks.peers import Outbox
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks import PERIOD_US_MAX, Period
from resprout_lab.blocks.retention import Passing, Retention
from resprout_lab.delta.forwarding import HopLink, ReliableForwarding, Transit
from resprout_lab.delta.messages import (
    DELTA_MAX,
    BarrierId,
    HopPath,
    KnownSubscription,
    RoutedHeal,
    RoutedRejoin,
    RoutedSubscription,
    RoutedUnsubscription,
    SubscriptionId,
)
from resprout_lab.delta.recovery import RecoveringTree
from resprout_lab.delta.subscriptions import KnownSubscriptions, LocalWishes


class DeltaOptions(msgspec.Struct, frozen=True):
    delta: Annotated[int, msgspec.Meta(ge=0, le=DELTA_MAX)] = 1
    """Brokers that may be down at once. Everybody knows the tree within delta + 1 hops, and headers name as many."""
    window: Annotated[int, msgspec.Meta(ge=1)] = 64
    """Bundles of one publisher that may be under way unconfirmed. With 1, each waits for the one before."""
    buffer: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Messages of one neighbour or client that may wait here, for confirmations, for readers or for room on links,
    before it is held back."""
    return_us: Annotated[int, msgspec.Meta(ge=0, le=PERIOD_US_MAX)] = 30_000_000
    """How long publications are kept for clients of a dead broker. With 0 nothing is kept, as the thesis measured it:
    clients of a dead broker are told that they may have missed messages."""
    suspect_us: Period = 4_000_000
    """How long a broker may be silent before it is passed over. A broker that was passed over and lives begins anew, so
    this must be longer than any pause that is no failure, and than links take to connect again after it."""


class PartitionTable:
    """The barriers that this broker has detected, each with what could not be told beyond."""

    def __init__(self, delta: int) -> None:
        self._delta = delta
        self._kept: dict[BarrierId, dict[int, Transit]] = {}
        """By number here."""
        self._sending: dict[BarrierId, dict[int, None]] = {}
        """Barriers that are open: what is not known beyond yet."""

    def cut(self, transit: Transit, path: HopPath) -> None:
        """Everybody on the path is dead."""
        if len(path) > self._delta:
            barrier = tuple(sorted(path))
            transit.barriers[barrier] = None
            kept = self._kept.setdefault(barrier, {})
            if (undone := transit.message.cancels) is not None:  # those beyond may never have heard of it
                for no in [no for no, one in kept.items() if one.message.key == undone]:
                    del kept[no]
            kept[transit.no] = transit
            self._sending.pop(barrier, None)

    def of(self, name: str) -> tuple[BarrierId, ...]:
        """The barriers that this broker belongs to: what comes from it is marked with them."""
        return tuple(barrier for barrier in self._kept if name in barrier)

    def open(self, name: str) -> list[Transit]:
        """This broker is back: what is to be sent on, in order."""
        found: dict[int, Transit] = {}
        for barrier in self.of(name):
            for no, transit in self._kept[barrier].items():
                transit.barriers.pop(barrier, None)
                found[no] = transit
            self._sending[barrier] = dict.fromkeys(self._kept[barrier])
        return [found[no] for no in sorted(found)]

    def done(self, transit: Transit) -> list[BarrierId]:
        """It is confirmed: which barriers are over."""
        over = []
        for barrier, sending in list(self._sending.items()):
            if sending.pop(transit.no, 0) is None and not sending:
                del self._sending[barrier], self._kept[barrier]
                over.append(barrier)
        return over


class Parts(NamedTuple):
    """The parts of a broker that operations work on."""

    seat: BrokerSeat
    tree: RecoveringTree
    forwarding: ReliableForwarding
    known: KnownSubscriptions
    wishes: LocalWishes
    partitions: PartitionTable
    sessions: ClientSessions
    kept: Retention
    passing: Passing
    outbox: Outbox
    step: Step


class FloodOperation:
    """The procedures that most types have in common (`Operation`): a message is for everybody, and copies are equal."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def check(self, message: Any) -> None: ...

    def rcpt(self, transit: Transit) -> Iterable[str]:
        return self._parts.tree.view.nodes()

    def update_routing_information(self, transit: Transit, link: HopLink) -> None: ...

    def came_again(self, message: Any, link: HopLink) -> None: ...

    def copy(self, transit: Transit, distance: int) -> dict[str, Any]:
        return {}

    def send(self, transit: Transit, name: str, message: Any) -> None:
        self._parts.outbox.send(name, message)

    def confirmed(self, transit: Transit) -> None: ...

    def cut(self, transit: Transit, path: HopPath) -> None: ...


class HealOperation(FloodOperation):
    """A partition is over: those beyond it know what they could not be told."""

    _heals = 0

    def begin(self, barrier: BarrierId) -> None:
        self._parts.wishes.heal(barrier)
        self._heals += 1
        self._parts.forwarding.originate(RoutedHeal(0, 0, (), None, self._parts.seat.name, self._heals, barrier))

    def update_routing_information(self, transit: Transit, link: HopLink) -> None:
        self._parts.wishes.heal(transit.message.barrier)


class PartitionedOperation(FloodOperation):
    """Of messages that are kept at a barrier, and sent on when it opens."""

    def __init__(self, parts: Parts, heal: HealOperation) -> None:
        super().__init__(parts)
        self._heal = heal

    def cut(self, transit: Transit, path: HopPath) -> None:
        self._parts.partitions.cut(transit, path)

    def confirmed(self, transit: Transit) -> None:
        for barrier in self._parts.partitions.done(transit):
            self._heal.begin(barrier)

    def _id(self, number: int) -> SubscriptionId:
        return SubscriptionId(self._parts.seat.name, self._parts.seat.incarnation, number)


class SubscribeOperation(PartitionedOperation):
    """*SUB* (section 4.7)."""

    def begin(self, told: Interested) -> None:
        wish = KnownSubscription(self._id(told.id), told.filter, told.where, self._parts.seat.name)
        self._parts.known.add(wish)
        self._parts.forwarding.originate(RoutedSubscription(0, 0, (), None, wish))

    def check(self, message: RoutedSubscription) -> None:
        self._parts.known.check(message.wish)

    def update_routing_information(self, transit: Transit, link: HopLink) -> None:
        self._parts.known.add(transit.message.wish)

    def copy(self, transit: Transit, distance: int) -> dict[str, Any]:
        return {"wish": self._parts.known.as_told(transit.message.wish, distance)}

    def confirmed(self, transit: Transit) -> None:
        super().confirmed(transit)
        if transit.came_from is None:
            confirmed = self._parts.wishes.confirm(transit.message.wish, transit.barriers)
            self._parts.sessions.confirm(confirmed, self._parts.step.out)


class UnsubscribeOperation(PartitionedOperation):
    """*US*. With the number 0 it withdraws everything that earlier lives of this broker wanted."""

    def begin(self, told: Uninterested) -> None:
        id = self._id(told.id)
        self._parts.known.remove(id)
        self._parts.forwarding.originate(RoutedUnsubscription(0, 0, (), None, id))

    def update_routing_information(self, transit: Transit, link: HopLink) -> None:
        self._parts.known.remove(transit.message.id)


class JoinOperation(FloodOperation):
    """*J* and *REJOIN* (sections 4.6 and 6): to everybody within delta + 1 hops of the broker that begins."""

    def __init__(self, parts: Parts, operational: Callable[[], None]) -> None:
        """`operational`: everybody nearby knows that this broker is back."""
        super().__init__(parts)
        self._operational = operational

    def begin(self) -> None:
        view = self._parts.tree.view
        places = (view.own, *view.places(view.own.neighbours))
        self._parts.forwarding.originate(RoutedRejoin(0, 0, (), None, view.name, places))

    def check(self, message: RoutedRejoin) -> None:
        if all(place.name != message.name for place in message.places):
            raise PeerError(f"{message.name} is back, and nobody says where")

    def rcpt(self, transit: Transit) -> Iterable[str]:
        tree = self._parts.tree
        return tree.view.nodes(tree.view.hops - len(tree.path(transit.message.name)))

    def update_routing_information(self, transit: Transit, link: HopLink) -> None:
        self._parts.tree.learn(transit.message.places)
        self._parts.tree.joined(transit.message.name)

    def confirmed(self, transit: Transit) -> None:
        if transit.came_from is None:
            self._operational()
