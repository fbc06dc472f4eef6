"""Totals that the root publishes by itself (`order.totals.root_order`): their places, their way down, and the answer to
those who submit one again.

The root gives such a total its place and its final stamp, delivers it, and sends it on as `OrderedTotal`. Every broker
that it comes to delivers it at once, behind everything that the root had ordered before: the root waits until it has
delivered all totals that are being closed, and has told its neighbours so before on every link.

Not all brokers are told. So a broker that submits one that was ordered before, because its publisher has moved there,
would wait for ever. The first broker on the way up that has delivered it answers with `AlreadyOrdered`. Publications
that follow the answer come behind the total wherever both go: every way from there to a broker that is told leads past
the broker that has answered.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from resprout.core.bundle import Bundle
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.order.clock import check_stamp
from resprout.order.messages import AlreadyOrdered, OrderedTotal, TotalId, TotalPlace, check_locks, id_of
from resprout.order.totals.pending import Dropped, LockRecord, RootPublication
from resprout.order.totals.root_order import RootOrderedTopics

if TYPE_CHECKING:
    from resprout.order.totals.totals import Totals


class PublishedTotals:
    """The totals of one broker that the root publishes.

    `publish` is called for each of them: it is delivered here, and passed on to whoever wants it. `known` is called for
    a total that waited here for its place and is not told here, because it was ordered before.
    """

    def __init__(
        self,
        totals: "Totals",
        topics: RootOrderedTopics,
        publish: Callable[[LockRecord, RootPublication], None],
        known: Callable[[Bundle], None],
    ) -> None:
        self._totals = totals
        self.topics = topics
        self.publish = publish
        self._known = known
        self.held: dict[TotalId, tuple[Bundle, bool]] = {}
        """At the root: totals that get their places in this order, each with its `prompt`. Usually at once; they wait
        while totals are being closed that need not have been."""
        self._placing = False
        """Whether `place_held` runs; it may be called again from inside."""

    # -- at the root ---------------------------------------------------------------------------------------------------

    def order(self, bundle: Bundle, prompt: bool) -> None:
        """Give a total its place, as soon as nothing is in its way."""
        self.held.setdefault(id_of(bundle), (bundle, prompt))
        self.place_held()

    def place_held(self) -> None:
        """Give places to the totals that wait for them, in order. The root publishes by itself what no broker has to
        close. While others are being closed, it is closed as well, side by side with them; but if none of those would
        have to be closed either, everything waits until they are delivered. Otherwise, at a high rate, there would
        always be some."""
        totals = self._totals
        if self._placing or totals.position.parent is not None or totals.is_installing:
            return
        undelivered = totals.locks.undelivered
        self._placing = True
        try:
            while self.held:
                if undelivered and all(record.may_be_scoped for record in undelivered.values()):
                    return
                bundle, prompt = self.held.pop(next(iter(self.held)))
                if totals.is_ordered(bundle):
                    self.answer(bundle, None)
                    continue
                may_be_scoped = self.topics.allows(bundle)
                place = totals.next_place(bundle)
                if may_be_scoped and not undelivered:
                    self._take(place, bundle.stamped(totals.clock.tick()), prompt, 0, None)
                else:
                    totals.lock(place, bundle, None, prompt, self.topics.begins_with(bundle), may_be_scoped)
        finally:
            self._placing = False

    # -- on their way --------------------------------------------------------------------------------------------------

    def take_ordered(self, peer: str, message: OrderedTotal) -> None:
        """Deliver a total that the root has published, and pass it on."""
        check_locks((message,))
        totals = self._totals
        if peer != totals.position.parent:
            raise PeerError("what the root publishes comes from the parent")
        if not message.hops:
            raise PeerError("a total has crossed the link that it came over")
        totals.check_room(message.bundle)
        if totals.position.neighbours.get(peer):
            bundle = totals.clock.admit(message.bundle)
            self._take((message.epoch, message.number), bundle, message.prompt, message.hops, peer)

    def _take(self, place: TotalPlace, bundle: Bundle, prompt: bool, hops: int, source: str | None) -> None:
        """Deliver a total that needs no closing: at once, unless an earlier one is not delivered."""
        totals, id = self._totals, id_of(bundle)
        publication = RootPublication(hops, source, totals.submissions.sources(id))
        known = totals.locks.records.get(id)
        if known is not None:  # others were given it as a copy, or by a repair
            if id in totals.submissions.waiting:
                totals.submissions.drop(id)
                self._tell_known(bundle, publication.asked)
            if known.stamp is not None:
                self.publish(known, publication)
            return
        is_repeat = totals.is_seen(bundle) and bundle.guarantee is Guarantee.TOTAL
        totals.line_up(LockRecord(place, bundle, prompt, is_repeat), publication)
        totals.progress_with(id)

    def take_missed(self, place: TotalPlace, bundle: Bundle, asked: tuple[str, ...], hops: int) -> None:
        """In a repair: deliver a total that the dead were to pass on. `asked`: the neighbours that have submitted
        it."""
        record = LockRecord(place, bundle)
        self._totals.line_up(record, RootPublication(hops, None, asked))
        self._totals.deliver_with_stamp(record, bundle.stamp)

    # -- submitted again -----------------------------------------------------------------------------------------------

    def must_ask(self, bundle: Bundle) -> bool:
        """Whether a total that was ordered may be unknown here: then a broker nearer to the root says when it is
        delivered."""
        totals = self._totals
        if not self.topics or totals.position.parent is None:
            return False
        return id_of(bundle) not in totals.locks.records and not totals.is_seen(bundle)

    def answer(self, bundle: Bundle, source: str | None) -> None:
        """A total is submitted that was ordered before. If all brokers are told it, there is nothing to do. Otherwise
        tell whoever has submitted it that it is known. `source`: the neighbour that submits it now, if any."""
        totals, id = self._totals, id_of(bundle)
        was_waiting = id in totals.submissions.waiting
        sources = dict.fromkeys(totals.submissions.sources(id))
        totals.submissions.drop(id)
        if not self.topics or id in totals.locks.undelivered:
            return
        if source is not None:
            sources[source] = None
        self._tell_known(bundle, tuple(sources), was_waiting or source is None)

    def take_known(self, peer: str, message: AlreadyOrdered) -> None:
        """The parent says that a total that was submitted to it is ordered and delivered there."""
        check_stamp(message.stamp)
        totals = self._totals
        if peer != totals.position.parent:
            raise PeerError("only the parent says what is ordered")
        id = (message.publisher, message.incarnation, message.first)
        bundle = totals.submissions.waiting.get(id)
        if bundle is not None and totals.position.neighbours.get(peer):
            totals.clock.raise_to(message.stamp)
            sources = totals.submissions.sources(id)
            totals.submissions.drop(id)
            self._tell_known(bundle, sources)

    def tell_overtaken(self, dropped: list[Dropped]) -> None:
        """These totals waited for their places, and others say that they were ordered. No lock of them may come."""
        if self.topics:
            for bundle, sources in dropped:
                if id_of(bundle) not in self._totals.locks.undelivered:
                    self._tell_known(bundle, sources)

    def _tell_known(self, bundle: Bundle, sources: tuple[str, ...], is_local: bool = True) -> None:
        """Tell the neighbours that have submitted a total, and this broker, that it was ordered and delivered."""
        totals = self._totals
        for name in sources:
            if totals.position.neighbours.get(name):
                totals.say(name, AlreadyOrdered(*id_of(bundle), totals.clock.now))
        if is_local:
            self._known(bundle)
