"""Total order: close, then deliver.

The root gives every total its place and a `Lock` carries it to all brokers. A broker makes it *active* as soon as it is
known: from then on local publications on its keys are *carried*, that is, submitted like totals and delivered at their
own places behind it, while bundles that arrive on links are never touched. Each broker then tells each neighbour that
its side of their link is *closed*, once all its other neighbours have said so of theirs. Links are FIFO, so a neighbour
that has heard it has everything that was published before the total on that side. Closed all around, the total is
stamped one above everything it closed behind, and delivered: the same stamp, between the same publications, everywhere.

Totals close side by side, however many there are and whatever they name. Each broker activates them in the order of
their places, and each at a clock of its own, so its floor of the later one is higher. It says of the earlier one first
that it is closed, on every link. So the later one is nowhere closed before the earlier one, and has the higher stamp,
whatever a repair has to put in the place of those who died: stamps, places and deliveries have one order. Copies that
a broker keeps for others (`keep`) are no deliveries, and enter its log in any order.

A carried publication may also be published plainly, by another broker to which its client has moved. Each broker
delivers the one that comes first (`deliver` is told of both). But all brokers take part in closing, because some may
not have the plain one.

A `Closed` that a dead broker sent before it died remains valid, and brokers close and deliver on it. A dead link on
which it was not sent never counts as closed. All links count, those in repair included, until a repair replaces them
(`order.totals.handover`).

Latency from origin o to broker s: d(o, root) + max over all brokers p of (d(root, p) + d(p, s)).

Not done here: logging, showing and acknowledging (`deliver` is called), and deciding what is carried. For that decision
the stack asks `is_gated`, `own` and `has_room_for`.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError, transition
from resprout.core.guarantee import Guarantee
from resprout.order.clock import Clock, check_stamp
from resprout.order.messages import (
    Closed,
    Lock,
    Submit,
    TotalId,
    TotalPlace,
    check_locks,
    check_total,
    id_of,
    tseq_of,
)
from resprout.order.totals.pending import (
    UNORDERED_TOTALS,
    Backlog,
    LockRecord,
    LockTable,
    RootPublication,
    Submissions,
)
from resprout.order.totals.published import PublishedTotals
from resprout.order.totals.root_order import RootOrderedTopics


class TreePosition(Protocol):
    """Where this broker stands in the tree."""

    epoch: int
    """The epoch of the root, as far as it is known here: each new root has a higher one."""

    @property
    def parent(self) -> str | None:
        """The parent; None at the root, which orders."""

    @property
    def neighbours(self) -> Mapping[str, bool]:
        """All links by name, and whether each is open; False for one in repair."""


class Waiting(NamedTuple):
    """Why a total is not delivered here yet, to tell people."""

    bundle: Bundle
    place: TotalPlace | None
    """None while it waits for the root to order it."""
    neighbours: tuple[str, ...]
    """Neighbours that have not said that their side is closed."""


class TotalsState(Enum):
    RUNNING = auto()
    INSTALLING = auto()
    """A repair is being installed: nothing is activated, told or delivered by itself until it is complete."""
    RESUBMITTING = auto()
    """What waits for its place is being submitted to the new parent again: nothing newer may go before it."""


TOTALS_STATES: Final[Mapping[TotalsState, frozenset[TotalsState]]] = {
    TotalsState.RUNNING: frozenset({TotalsState.INSTALLING}),
    # A mistake of a peer can end the step in the middle of a repair; the next repair begins again.
    TotalsState.INSTALLING: frozenset({TotalsState.INSTALLING, TotalsState.RESUBMITTING}),
    TotalsState.RESUBMITTING: frozenset({TotalsState.RUNNING, TotalsState.INSTALLING}),
}


class Totals:
    """The totals of one broker. `take_submit`, `take_lock` and `take_closed` handle the messages of neighbours; they
    raise PeerError for a message that no honest peer sends.

    `say(neighbour, message)` sends a message behind everything that is in the log.

    `deliver(bundle, tseq, prompt, is_repeat)` is called once per total, in the order of delivery; the bundle carries
    its final stamp, to which the clock is already raised.

    `is_seen(bundle)` returns whether exactly this bundle was delivered here before. A bundle that a newer life of its
    publisher has overtaken was not delivered, and a carried bundle may be here as a plain one. In both cases this
    broker must still help to close the total, because all other brokers wait for it.

    The same holds for a total whose number was seen here before it had a place (`is_repeat`). Its publisher, or a
    broker in the publisher's name, has used the number twice; only readers of that publisher are affected.
    """

    def __init__(
        self,
        position: TreePosition,
        clock: Clock,
        say: Callable[[str, ProtocolMessage], None],
        deliver: Callable[[Bundle, int, bool, bool], None],
        is_seen: Callable[[Bundle], bool],
        topics: RootOrderedTopics | None = None,
        publish: Callable[[LockRecord, RootPublication], None] = lambda record, publication: None,
        known: Callable[[Bundle], None] = lambda bundle: None,
    ) -> None:
        """`publish` is called in place of `deliver` for a total that the root has published (`PublishedTotals`), and
        `known` for one that waited here and is not told here."""
        self.position = position
        self.clock = clock
        self.say = say
        self.locks = LockTable()
        self.backlog = Backlog()
        self.submissions = Submissions(self.backlog)
        self.state = TotalsState.RUNNING
        self._deliver = deliver
        self.is_seen = is_seen
        self._number = 0
        """At the root: the last number that it gave in this epoch."""
        self._latest: TotalPlace = (-1, 0)
        """The highest place of all locks that were taken here. Copies of totals (`keep`) do not count, because any
        neighbour could forge them."""
        self._working = False
        """Whether `_work` runs; it may be called again from inside."""
        self.published = PublishedTotals(self, topics if topics is not None else RootOrderedTopics(), publish, known)
        self._to_advance: dict[TotalId, LockRecord] = {}
        """Totals to look at in `_work`: one of their sides was closed, or they are the next to deliver."""

    def move_to(self, state: TotalsState) -> None:
        self.state = transition(TOTALS_STATES, self.state, state)

    @property
    def latest(self) -> TotalPlace:
        """The highest place of all totals that were taken here."""
        return self._latest

    @property
    def is_installing(self) -> bool:
        """Whether a repair is being installed."""
        return self.state is TotalsState.INSTALLING

    # -- what the broker asks ------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Totals that are known here and not yet delivered."""
        return self.backlog.count

    def has_room_for(self, publisher: str) -> bool:
        """Whether a local client may have another total under way."""
        if not self.backlog.has_room_for(publisher):
            return False
        waiting = self.submissions.waiting
        return not waiting or sum(id_of(own) in waiting for own in self.backlog.of(publisher)) < UNORDERED_TOTALS

    def is_gated(self, bundle: Bundle) -> bool:
        """Whether an active total names one of its keys. Published plainly, brokers might deliver the bundle on
        different sides of that total."""
        return self.locks.is_gated(bundle) or self.published.topics.gates(bundle)

    def own(self, publisher: str) -> Bundle | None:
        """Return the first total of this publisher that is under way, if any: what it publishes now must follow it."""
        mine = self.backlog.of(publisher)
        return mine[0] if mine else None

    def is_under_way(self, bundle: Bundle) -> bool:
        """Whether the bundle was submitted and is not delivered here yet."""
        return self.backlog.has(id_of(bundle))

    def under_way(self, bundle: Bundle) -> Bundle | None:
        """Return what was submitted, is not delivered here yet, and has the bundle's first message in it."""
        own = (own for own in self.backlog.of(bundle.publisher) if own.origin == bundle.origin)
        return next((each for each in own if each.first <= bundle.first <= each.last), None)

    def is_overtaken(self, bundle: Bundle) -> bool:
        """Whether a later publication of the same publisher is under way."""
        at = (bundle.incarnation, bundle.first)
        return any((own.incarnation, own.first) > at for own in self.backlog.of(bundle.publisher))

    def waiting(self) -> tuple[Waiting, ...]:
        """Return all undelivered totals, and what each waits for."""
        found = [Waiting(bundle, None, ()) for bundle in self.submissions.waiting.values()]
        for record in self.locks.undelivered.values():
            unclosed = tuple(name for name in self.position.neighbours if name not in record.heard)
            found.append(Waiting(record.bundle, record.place, unclosed))
        return tuple(found)

    # -- submit and lock -----------------------------------------------------------------------------------------------

    def submit(self, bundle: Bundle, prompt: bool = False, source: str | None = None) -> None:
        """Have a total ordered: give it a place at the root, otherwise submit it to the parent. Submitting it again
        does no harm. Of a bundle that has its place in part, the rest is ordered. `prompt`: its publisher waits for
        receipts. `source`: the neighbour that submits it; None for a local client."""
        bundle = self.submissions.last.rest(self.clock.admit(bundle))
        id = id_of(bundle)
        parent = self.position.parent
        if self.is_ordered(bundle) and not self.published.must_ask(bundle):
            self.published.answer(bundle, source)
        elif parent is None and self.published.topics:
            self.submissions.keep(id, bundle, source)
            self.published.order(bundle, prompt)
        elif parent is None:
            self.lock(self.next_place(bundle), bundle, None, prompt, self.published.topics.begins_with(bundle))
        else:
            self.submissions.keep(id, bundle, source)
            if self.position.neighbours.get(parent):
                self.say(parent, Submit(bundle, prompt))

    def next_place(self, bundle: Bundle) -> TotalPlace:
        """At the root: give a total its place."""
        place = (self.position.epoch, self._number + 1)
        self._number += bundle.count  # each total of a bundle has a place of its own
        return place

    def line_up(self, record: LockRecord, publication: RootPublication) -> None:
        """Record a total that the root has published. It is delivered when it is the first in line."""
        self.position.epoch = max(self.position.epoch, record.place[0])
        self._latest = max(self._latest, record.place)
        record.publication = publication
        record.may_be_scoped = True
        self.locks.add(record)
        self.published.tell_overtaken(self.submissions.locked(record.id, record.bundle))

    def progress_with(self, id: TotalId) -> None:
        """Look at one total, and go on as far as possible."""
        self._to_advance[id] = self.locks.undelivered[id]
        self._work()

    def become_root(self, epoch: int) -> None:
        """Start numbering places under an epoch that no root has used before. `resubmit` then orders what waits."""
        assert epoch > self.position.epoch, "places that an earlier root has given would be given again"
        self.position.epoch = epoch
        self._number = 0

    def resubmit(self) -> None:
        """Submit again what has no place yet: the path to the root, or the root, has changed."""
        self.published.held.clear()
        for bundle in list(self.submissions.waiting.values()):
            self.submit(bundle)

    def is_ordered(self, bundle: Bundle) -> bool:
        """Whether the bundle has its place or is delivered; or was published plainly, and a later one of its
        publisher has a place."""
        id = id_of(bundle)
        if id in self.locks.records or not self.submissions.last.is_newer(id):
            return True
        return bundle.guarantee is Guarantee.TOTAL and self.is_seen(bundle)

    def add_lock(
        self,
        place: TotalPlace,
        bundle: Bundle,
        others: list[str],
        prompt: bool = False,
        root_ordered: bool = False,
        may_be_scoped: bool = False,
    ) -> LockRecord | None:
        """Take a lock and pass it on to these neighbours; None when it is not new."""
        if self.is_ordered(bundle):
            self.submissions.drop(id_of(bundle))
            return None
        return self._record_place(place, bundle, others, prompt, False, root_ordered, may_be_scoped)

    def _record_place(
        self,
        place: TotalPlace,
        bundle: Bundle,
        others: list[str],
        prompt: bool,
        is_repeat: bool,
        root_ordered: bool,
        may_be_scoped: bool,
    ) -> LockRecord:
        """Record the place of a total, and pass the lock on to these neighbours."""
        id = id_of(bundle)
        self.position.epoch = max(self.position.epoch, place[0])
        self._latest = max(self._latest, place)
        record = LockRecord(place, bundle, prompt, is_repeat)
        record.may_be_scoped = may_be_scoped
        if root_ordered:
            record.root_ordered = True
            self.published.topics.begin(bundle)
        self.locks.add(record)
        self.published.tell_overtaken(self.submissions.locked(id, bundle))
        message = Lock(*place, bundle, prompt, root_ordered)
        for name in others:
            self.say(name, message)
        return record

    def lock(
        self,
        place: TotalPlace,
        bundle: Bundle,
        source: str | None,
        prompt: bool,
        root_ordered: bool = False,
        may_be_scoped: bool = False,
    ) -> None:
        """Take a total with its place, which this broker gave as the root (`source` is None) or heard from its parent:
        record it, pass it on, and work on it."""
        others = [name for name, is_open in self.position.neighbours.items() if is_open and name != source]
        if place > self._latest and id_of(bundle) not in self.locks.undelivered:
            # The place is new, so all brokers wait for this one to close it, even if it has seen the bundle before.
            is_repeat = id_of(bundle) in self.locks.records or self.is_seen(bundle)
            is_repeat = is_repeat and bundle.guarantee is Guarantee.TOTAL
            self._record_place(place, bundle, others, prompt, is_repeat, root_ordered, may_be_scoped)
            self._work()
        elif self.add_lock(place, bundle, others, prompt, root_ordered, may_be_scoped):
            self._work()

    def take_submit(self, peer: str, message: Submit) -> None:
        """Submit a total of a child's side: pass it up, or give it a place at the root."""
        if peer == self.position.parent:
            raise PeerError("a total is submitted to the parent, not to a child")
        check_total(message.bundle)
        self.check_room(message.bundle)
        if self.position.neighbours.get(peer):
            self.submit(message.bundle, message.prompt, peer)

    def take_lock(self, peer: str, message: Lock) -> None:
        """Take the place of a total from the parent, pass it down, and make the total active."""
        check_locks((message,))
        if peer != self.position.parent:
            raise PeerError("a lock comes from the parent: only the root gives places")
        self.check_room(message.bundle)
        if self.position.neighbours.get(peer):
            place = (message.epoch, message.number)
            self.lock(place, message.bundle, peer, message.prompt, message.root_ordered)

    def check_room(self, bundle: Bundle) -> None:
        """Raise PeerError if a total that is new here would exceed the hard bounds."""
        if id_of(bundle) not in self.submissions.waiting:
            self.backlog.check_room(1, bundle.cost)

    # -- close and deliver ---------------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Look at every total again, in order, after the set of links has changed."""
        for record in self.locks.in_line():
            self._to_advance.pop(record.id, None)
            self._to_advance[record.id] = record
        self._work()

    def keep(self, place: TotalPlace, bundle: Bundle, is_scoped: bool) -> None:
        """Record a total that others delivered before this broker joined: a repair may have to hand it on. `is_scoped`:
        the root has published it."""
        self.position.epoch = max(self.position.epoch, place[0])
        self.clock.raise_to(bundle.stamp)
        record = LockRecord(place, bundle)
        record.publication = RootPublication(0, None, ()) if is_scoped else None
        self.locks.keep(record)

    def forget(self, id: TotalId) -> None:
        """Forget a total that has left the log: no repair can ask for it any more."""
        self.locks.forget(id)

    def take_closed(self, peer: str, message: Closed) -> None:
        """Note that the neighbour's side of the link is closed for a total, up to the stamp that it states."""
        check_stamp(message.stamp)
        if not self.position.neighbours.get(peer):
            return  # from a link in repair it comes too late: a coordinator may have been told that nothing was heard
        record = self.locks.undelivered.get((message.publisher, message.incarnation, message.first))
        if record is not None:
            record.heard[peer] = self.clock.raise_to(message.stamp)
            self._to_advance[record.id] = record
            self._work()

    def _work(self) -> None:
        """Activate, close and deliver until nothing more can be done. Delivering drains clients, which call this
        again: a loop, because a recursion would be as deep as their queues are long."""
        if self._working:
            return
        self._working = True
        try:
            while self.state is not TotalsState.INSTALLING:
                for record in self.locks.take_idle():
                    self.locks.activate(record, max(record.floor, self.clock.tick()))
                    self._to_advance[record.id] = record
                if not self._to_advance:
                    break
                self._advance(self._to_advance.pop(next(iter(self._to_advance))))
        finally:
            self._working = False
        if self.published.held:
            self.published.place_held()

    def _advance(self, record: LockRecord) -> None:
        """Tell a neighbour Closed as soon as the sides of all other neighbours are closed; deliver the total when all
        sides are closed and no total is before it."""
        if record.publication is not None:
            if record.stamp is None and self.locks.first is record:
                self.deliver_with_stamp(record, record.bundle.stamp)
            return
        links, heard, floor = self.position.neighbours, record.heard, record.floor
        if not record.active or record.stamp is not None or len(heard) + 1 < len(links):
            return
        unclosed = [name for name in links if name not in heard]
        if len(unclosed) > 1:
            return
        # A neighbour is told the maximum of this broker's floor and of the stamps of all its other neighbours. That is
        # `highest`, except for the neighbour that said `highest` itself.
        *_, second, highest = sorted((floor, floor, *(heard[name] for name in links if name in heard)))
        for name in unclosed or links:
            if links[name] and name not in record.told:
                self.tell_closed(record, name, second if heard.get(name) == highest else highest)
        if not unclosed and self.locks.first is record:
            self.deliver_with_stamp(record, highest + 1)

    def tell_closed(self, record: LockRecord, name: str, stamp: int) -> None:
        """Send Closed to a neighbour: on this side of the link nothing more is published plainly on the total's keys
        until its delivery, and what was published has no higher stamp than this."""
        record.told[name] = stamp
        self.say(name, Closed(*record.id, stamp))

    def deliver_with_stamp(self, record: LockRecord, stamp: int) -> None:
        """Give a total its final stamp, and deliver it."""
        stamp = self.clock.limit(stamp)
        self.clock.now = max(self.clock.now, stamp)
        self.locks.deliver(record, stamp)
        if (following := self.locks.first) is not None:
            self._to_advance[following.id] = following
        self.backlog.remove(record.id)
        if record.root_ordered:
            self.published.topics.settle(record.bundle)
        if record.publication is not None:
            self.published.publish(record, record.publication)
        else:
            self._deliver(record.bundle, tseq_of(record.place), record.prompt, record.is_repeat)
