"""One broker: its parts, and what it does with each kind of routed message."""

import random
from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend, Publish, Serving
from resprout.filters.predicate import heard_predicate
from resprout.spread.messages import Interested, Uninterested
from resprout.stacks.shell.desk import Handler
from resprout.stacks.shell.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout.stacks.status import StackStatus
from resprout_lab.blocks.item import KeptItem
from resprout_lab.blocks.serving import ServingShell
from resprout_lab.blocks.tree import LinkEnded
from resprout_lab.delta.forwarding import TARGETS_MAX, HopLink, ReliableForwarding, Transit
from resprout_lab.delta.messages import (
    ROUTED_MESSAGES,
    BarrierId,
    HopPath,
    KnownSubscription,
    NodeStatus,
    RoutedHeal,
    RoutedMessage,
    RoutedPublication,
    RoutedRejoin,
    RoutedSubscription,
    RoutedUnsubscription,
    RoutesConfirmed,
    SubscriptionId,
    VisitedNode,
)  # fmt: skip
from resprout_lab.delta.options import DeltaOptions
from resprout_lab.delta.orphans import Orphans
from resprout_lab.delta.partitions import PartitionTable
from resprout_lab.delta.publishing import OwnPublications
from resprout_lab.delta.recipients import onward, source_at
from resprout_lab.delta.recovery import RecoveringTree, Synced
from resprout_lab.delta.subscriptions import KnownSubscriptions, LocalWishes
from resprout_lab.delta.tree import HopDied, HopFound
from resprout_lab.delta.visited import NewestSeen, visited_on

GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.FIFO)
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class DeltaBroker(ServingShell):
    def __init__(self, seat: BrokerSeat, options: DeltaOptions, rng: random.Random) -> None:
        self._wishes = LocalWishes()
        super().__init__(Serving("delta", GUARANTEES, options.delta, receipts=RECEIPTS), self._wishes, options.buffer)
        self._seat = seat
        self._delta = options.delta
        self._tree = tree = RecoveringTree(seat, self._step, self._outbox, options.delta, self)
        self._known = KnownSubscriptions()
        self._newest = NewestSeen(seat.name, seat.incarnation, options.delta)
        self._forwarding = ReliableForwarding(self)
        self._partitions = PartitionTable(options.delta)
        self._own = OwnPublications(options.window, self._send_out, self._arrived)
        self._heals = 0
        self._orphans = Orphans(tree, options.delta)
        self._is_operational = False
        self._rests_on = 1
        """How many brokers have what is shown next."""
        self._sessions.copies_of = lambda item: self._rests_on
        routed: dict[type, Handler] = dict.fromkeys(ROUTED_MESSAGES, self._hear)
        self._open(
            tree,
            {**routed, RoutesConfirmed: self._confirmed, NodeStatus: self._status},
            publish=self._own.publish,
            is_ready=lambda: self._is_operational,
            door=self._is_open_to,
            successors=lambda: tree.successors,
            outcomes={
                HopFound: self._found,
                LinkEnded: lambda outcome: self._lost(outcome.name),
                HopDied: self._died,
                Synced: self._synced,
            },
            at_end=((self._wishes.outbound, self._announce), self._tell_confirmed),
        )

    def status(self) -> StackStatus:
        return msgspec.structs.replace(super().status(), serving=self._is_operational)

    # -- what is routed (Algorithm 1) ----------------------------------------------------------------------------------

    def _hear(self, peer: Peer, message: RoutedMessage) -> None:
        link = self._forwarding.links[peer.name]
        self._check(link, message)
        link.received += 1
        transit = self._forwarding.find(message.key)
        if transit is not None:
            self._forwarding.again(transit, link, message.place)
        elif self._newest.is_duplicate(message):
            link.confirm(message.place)
        else:
            self._newest.note(message)
            transit = self._forwarding.make(message, peer.name)
            transit.senders.append((link, message.place))
            self._take(transit, link)
            guided = [] if message.to is None else [path for path in message.to if path]
            self._forwarding.begin(transit, self._targets(transit) if self._tree.is_synced else guided)

    def _check(self, link: HopLink, message: RoutedMessage) -> None:
        """PeerError for what no honest broker says, before anything is changed."""
        self._newest.check(message)
        if message.place != link.received + 1:
            raise PeerError(f"{message.place} came after {link.received}")
        if message.to is None and not self._tree.is_synced:
            raise PeerError("this broker needs guidance")
        if any(len(path) > self._delta + 1 for path in message.to or ()) or len(message.to or ()) > TARGETS_MAX:
            raise PeerError("guidance to where nobody can know the way")
        if isinstance(message, RoutedSubscription):
            self._check_wish(message.wish)
        if isinstance(message, RoutedRejoin) and all(place.name != message.name for place in message.places):
            raise PeerError(f"{message.name} is back, and nobody says where")

    def _check_wish(self, wish: KnownSubscription) -> None:
        heard_predicate(wish.filter, wish.where)
        if wish.source not in self._tree.view:
            raise PeerError(f"the subscription of {wish.source}, which is nowhere near")

    def _take(self, transit: Transit, link: HopLink) -> None:
        """A message that is new here: what it means to this broker."""
        message = transit.message
        if isinstance(message, RoutedPublication):
            transit.item = KeptItem(message.bundle, message.hops, link.name, False)
            self._kept.keep(transit.item)
            if barriers := self._partitions.of(link.name):
                marks = tuple(dict.fromkeys((*message.barriers, *barriers)))
                transit.message = message = msgspec.structs.replace(message, barriers=marks)
            self._show(transit.item, message.barriers)
            self._orphans.retain(link, transit, message)
        elif isinstance(message, RoutedSubscription):
            self._known.add(message.wish)
        elif isinstance(message, RoutedUnsubscription):
            self._known.remove(message.id)
        elif isinstance(message, RoutedRejoin):
            self._tree.learn(message.places)
            self._tree.joined(message.name)
        elif isinstance(message, RoutedHeal):
            self._wishes.heal(message.barrier)

    def _targets(self, transit: Transit) -> list[HopPath]:
        """For whom it is beyond this broker: its recipient set."""
        message = transit.message
        if isinstance(message, RoutedPublication):
            names = list(self._known.wanted_by(message.bundle))
        elif isinstance(message, RoutedRejoin):
            names = list(self._tree.view.nodes(self._delta + 1 - len(self._tree.path(message.name))))
        else:
            names = list(self._tree.view.nodes())
        return [self._tree.path(name) for name in onward(self._tree.view, transit.came_from, names)]

    def _begin(self, message: RoutedMessage) -> None:
        """A message of this broker itself."""
        transit = self._forwarding.make(message)
        self._forwarding.begin(transit, self._targets(transit))

    # -- what forwarding asks (`ForwardingPort`) -----------------------------------------------------------------------

    def is_dead(self, name: str) -> bool:
        return self._tree.is_dead(name)

    def cut(self, transit: Transit, path: HopPath) -> None:
        if self._tree.is_synced:
            self._partitions.cut(transit, path)

    def transmit(self, transit: Transit, link: HopLink, place: int, path: HopPath, beyond: tuple[HopPath, ...]) -> None:
        message = transit.message
        changes: dict[str, Any] = {"place": place, "to": None if link.is_operational else beyond}
        if transit.came_from is None or not self._is_back(transit.came_from, link.name):
            own = VisitedNode(self._seat.name, self._seat.incarnation, transit.no)
            changes["visited"] = visited_on(message.visited, own, path[:-1], self._delta)
            changes["hops"] = message.hops + len(path)
        if isinstance(message, RoutedPublication):
            changes["settled"] = self._forwarding.settled
            assert transit.item is not None, "a publication has one"
            self._passing.pass_on(link.name, transit.item, msgspec.structs.replace(message, **changes))
            return
        if isinstance(message, RoutedSubscription):
            changes["wish"] = self._as_told(message.wish, len(path))
        self._outbox.send(link.name, msgspec.structs.replace(message, **changes))

    def _is_back(self, came_from: str, name: str) -> bool:
        """It goes where it came from, for a dead broker: as that one would have sent it."""
        here, there = self._tree.path(came_from), self._tree.path(name)
        return bool(here and there) and here[0] == there[0]

    def done(self, transit: Transit) -> None:
        message = transit.message
        for barrier in self._partitions.done(transit):
            self._heal(barrier)
        if isinstance(message, RoutedPublication):
            assert transit.item is not None, "a publication has one"
            self._own.advance((message.bundle.publisher, message.bundle.incarnation))
            self._kept.let_go(transit.item)
        elif transit.came_from is not None:
            return
        elif isinstance(message, RoutedSubscription):
            self._sessions.confirm(self._wishes.confirm(message.wish, transit.barriers), self._step.out)
        elif isinstance(message, RoutedRejoin):
            self._is_operational = True
            self._step.note("joined", "operational")

    # -- publications --------------------------------------------------------------------------------------------------

    def _send_out(self, publish: Publish, client: str) -> tuple[Transit | None, bool]:
        bundle = publish.bundle
        message = RoutedPublication(0, 0, (), None, bundle, 0, ())
        if (transit := self._forwarding.find(message.key)) is not None:
            return transit, False
        if self._newest.has(bundle):
            return None, False
        is_new = not self._newest.has_passed(bundle)
        self._newest.note_bundle(bundle)
        transit = self._forwarding.make(message)
        transit.item = KeptItem(bundle, 0, client, publish.prompt)
        self._kept.keep(transit.item)
        self._forwarding.begin(transit, self._targets(transit))
        return transit, is_new

    def _arrived(self, bundle: Bundle, transit: Transit | None, is_new: bool) -> None:
        """Everybody has it, and it is its turn: readers here are shown it, and its publisher told."""
        if is_new and transit is not None and transit.item is not None:
            self._rests_on = min(1 + len(transit.reached), self._delta + 1)
            self._show(transit.item, None)
        elif (session := self._sessions.publisher_of(bundle)) is not None:
            self._sessions.known(session, bundle, everywhere=False)

    def _show(self, item: KeptItem, barriers: tuple[BarrierId, ...] | None) -> None:
        """`barriers`: with which it came; None for what was published here."""
        self._kept.place(item)
        self._sessions.address(item, item.bundle, self._wishes.matches(item.bundle, barriers or ()))
        if barriers is not None:
            item.client = None  # its publisher may be here by now, and is told when everybody has it
        self._sessions.show(item, self._step.out)

    def _adopt(self) -> None:
        """What the dead left undone goes to those beyond them who want it."""
        for transit in self._orphans.adopt():
            message = transit.message
            assert isinstance(message, RoutedPublication) and transit.item is not None and transit.came_from is not None
            if transit.is_done:
                transit.targets.clear()
                self._kept.keep(transit.item)
            names = [one for one in self._known.wanted_by(message.bundle) if self._is_back(transit.came_from, one)]
            self._forwarding.resume(transit, [self._tree.path(name) for name in names])

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def _announce(self) -> None:
        news = list(self._wishes.outbound)
        self._wishes.outbound.clear()
        for _, told in news:
            assert isinstance(told, Interested | Uninterested), "nobody here is asked"
            id = SubscriptionId(self._seat.name, self._seat.incarnation, told.id)
            if isinstance(told, Interested):
                wish = KnownSubscription(id, told.filter, told.where, self._seat.name)
                self._known.add(wish)
                self._begin(RoutedSubscription(0, 0, (), None, wish))
            else:
                self._known.remove(id)
                self._begin(RoutedUnsubscription(0, 0, (), None, id))

    def subscriptions_for(self, name: str) -> tuple[KnownSubscription, ...]:
        view, branch, distance = self._tree.view, self._tree.view.branch(name), len(self._tree.path(name))
        return tuple([self._as_told(one, distance) for one in self._known if branch not in view.path(one.source)[:2]])

    def _as_told(self, wish: KnownSubscription, distance: int) -> KnownSubscription:
        """To somebody so far away from here."""
        source = source_at(self._tree.view.path(wish.source), distance, self._delta)
        return msgspec.structs.replace(wish, source=source)

    def learn_subscriptions(self, told: tuple[KnownSubscription, ...]) -> None:
        for wish in told:
            self._check_wish(wish)
            self._known.add(wish)

    def _heal(self, barrier: BarrierId) -> None:
        self._wishes.heal(barrier)
        self._heals += 1
        self._begin(RoutedHeal(0, 0, (), None, self._seat.name, self._heals, barrier))

    # -- links ---------------------------------------------------------------------------------------------------------

    def _found(self, outcome: HopFound) -> None:
        link = self._forwarding.links.get(outcome.name)
        if link is None:
            link = HopLink(outcome.name, self._tree.path(outcome.name)[0], outcome.is_operational)
            self._orphans.found(link)
            self._forwarding.links[link.name] = link
            for transit in self._partitions.open(outcome.name):
                self._forwarding.resume(transit)
            self._forwarding.reroute()
        elif outcome.is_operational:  # both have asked each other
            link.is_operational = True

    def _lost(self, name: str) -> None:
        self._passing.end(name)
        if (link := self._forwarding.unlink(name)) is not None:
            self._orphans.lost(link)

    def _died(self, outcome: HopDied) -> None:
        self._lost(outcome.name)
        self._adopt()
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
        view = self._tree.view
        self._forwarding.is_holding = False
        for transit in self._forwarding.processing:
            self._forwarding.begin(transit, self._targets(transit))
        self._begin(RoutedRejoin(0, 0, (), None, self._seat.name, (view.own, *view.places(view.own.neighbours))))
        if outcome.is_back:
            old = SubscriptionId(self._seat.name, self._seat.incarnation, 0)
            self._begin(RoutedUnsubscription(0, 0, (), None, old))

    # -- clients of the dead -------------------------------------------------------------------------------------------

    def _is_open_to(self, session: ClientSession, attend: Attend, waited_us: int) -> bool:
        """Not to clients of a broker nearby that may live."""
        return not attend.tried or attend.anyhow or not self._tree.may_live(attend.tried[0], attend.home)
