"""The operations of the report beside publishing, each with its procedures by the type of its messages: *SUB*, *US*,
*J* and *REJOIN*; and the end of a partition, which is of seed 001."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from resprout.core.errors import PeerError
from resprout.edge.broker.sessions import ClientSessions
from resprout.spread.messages import Interested, Uninterested
from resprout.stacks.peers import Outbox
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.passing import Passing
from resprout_lab.blocks.retention import Retention
from resprout_lab.delta.forwarding import HopLink, ReliableForwarding, Transit
from resprout_lab.delta.messages import (
    BarrierId,
    HopPath,
    KnownSubscription,
    RoutedHeal,
    RoutedRejoin,
    RoutedSubscription,
    RoutedUnsubscription,
    SubscriptionId,
)  # fmt: skip
from resprout_lab.delta.partitions import PartitionTable
from resprout_lab.delta.recovery import RecoveringTree
from resprout_lab.delta.subscriptions import KnownSubscriptions, LocalWishes


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
