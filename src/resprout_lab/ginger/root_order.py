"""The correction `root_order`: totals lock their keys in the order of the root, and in no other.

A total goes up to the root without a lock. The root numbers it and sends it down (`TotalLock`). A broker lets it lock
its pairs when no earlier one holds them, and acknowledges when all its children have. With all acknowledgements the
root has it processed. Acknowledgements are kept by child (G11). Pairs are taken in one order everywhere, so no two
totals wait for each other (G12). After a failure, what was requested is requested again of the new parent, and what was
locked is locked again at new children; a new root goes on with the numbers of the old one.

A publication on its way up may still meet a lock (G13): its own side delivered it before the total, all others deliver
it after. This is left as it is, and the judge reports it as `barrier`.
"""

from collections import deque
from collections.abc import Mapping

from resprout.core.bundle import Pair
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout_lab.ginger.dissemination import Dissemination
from resprout_lab.ginger.messages import MessageId, Metadata, TotalAck, TotalLock, TotalProcessed, id_of
from resprout_lab.ginger.state import Entry, Neighbor, State

EPOCH_BITS = 32
"""Numbers begin with the count of roots: a new root may not know all that the old one gave."""


class Locked:
    """A total that the root has numbered and that is not processed here."""

    __slots__ = ("acks", "active", "lock", "pairs")

    def __init__(self, lock: TotalLock, pairs: tuple[Pair, ...]) -> None:
        self.lock = lock
        self.pairs = pairs
        self.active = False
        """It holds its pairs."""
        self.acks: dict[str, None] = {}


class RootOrder:
    def __init__(self, state: State, dissemination: Dissemination) -> None:
        self._state = state
        self._dissemination = dissemination
        self.requested: dict[MessageId, Entry] = {}
        """On their way up."""
        self.linear: dict[MessageId, Locked] = {}
        self._queues: dict[Pair, deque[Locked]] = {}
        self._publishers: dict[str, int] = {}
        self._number = 0
        """The highest that any root is known to have given. It is the place of a total, too."""
        self.is_still = False
        """A reconfiguration goes on: nothing is processed."""
        self.synchronising: Mapping[str, None] = {}
        """New children, which are sent all locks at once (`answer`)."""
        self.is_due = False
        """Pairs are free: see `go_on`."""
        self._is_new_root = True
        """It has given no number yet."""

    # -- questions -----------------------------------------------------------------------------------------------------

    def is_blocked(self, entry: Entry) -> bool:
        """Nothing that comes from the parent is: the parent held it itself."""
        if not self._queues or entry.bundle.guarantee is Guarantee.TOTAL or entry.source == self._state.parent:
            return False
        queues = [self._queues.get(pair) for pair in self._dissemination.pairs(entry)]
        return any(queue is not None and queue[0].active for queue in queues)

    def has_of(self, publisher: str) -> bool:
        return publisher in self._publishers

    def waiting(self) -> tuple[MessageId, ...]:
        return ()

    def pending(self) -> list[TotalLock]:
        return [locked.lock for locked in self.linear.values()]

    # -- up ------------------------------------------------------------------------------------------------------------

    def receive(self, entry: Entry) -> None:
        """From a client or a child. What is locked here is requested all the same: a new root may not know it."""
        if entry.id in self.requested or self._state.seen.has(entry.bundle):
            return
        if entry.source == self._state.parent:
            raise PeerError("a parent sends totals with a number")
        if entry.id not in self.linear:
            self._count(entry.bundle.publisher, 1)
        self.requested[entry.id] = entry
        self._send_up(entry)

    def _send_up(self, entry: Entry) -> None:
        state = self._state
        if state.is_root:
            if self.is_still or entry.id in self.linear:
                return
            if self._is_new_root:
                self._is_new_root = False
                self._number = ((self._number >> EPOCH_BITS) + 1) << EPOCH_BITS
            self._lock(TotalLock(entry.bundle, entry.hops, self._number + 1, entry.prompt))
        elif state.parent is not None:
            state.outbox.send(state.parent, Metadata(entry.bundle, entry.hops + 1, prompt=entry.prompt))

    # -- down ----------------------------------------------------------------------------------------------------------

    def hear_lock(self, neighbor: Neighbor, message: TotalLock) -> None:
        if neighbor.name != self._state.parent:
            raise PeerError("only a parent orders totals")
        self._lock(message)

    def learn(self, lock: TotalLock) -> None:
        """A child holds a total that the old root has numbered, and this new root may not know."""
        if self._state.is_root:
            self._lock(lock)

    def _lock(self, lock: TotalLock) -> None:
        state, id = self._state, id_of(lock.bundle)
        state.clock = max(state.clock, lock.bundle.stamp)
        self._number = max(self._number, lock.number + lock.bundle.count - 1)
        locked = self.linear.get(id)
        if locked is not None and lock.number > locked.lock.number:  # the new root has another order
            self._unlock(id)
            locked = None
        if locked is None and not state.seen.has(lock.bundle):
            if id not in self.requested:
                self._count(lock.bundle.publisher, 1)
            pairs = self._dissemination.pairs(Entry(lock.bundle, lock.hops, None))
            locked = self.linear[id] = Locked(lock, pairs or ((lock.bundle.topic, ""),))
            for pair in locked.pairs:
                self._queues.setdefault(pair, deque()).append(locked)
            for name in state.children:
                if name not in self.synchronising:
                    self._send_lock(name, lock)
        if locked is not None:
            self._activate(locked)

    def _send_lock(self, name: str, lock: TotalLock) -> None:
        self._state.outbox.pass_by(name, TotalLock(lock.bundle, lock.hops + 1, lock.number, lock.prompt))

    def _activate(self, locked: Locked) -> None:
        if all(self._queues[pair][0] is locked for pair in locked.pairs):
            locked.active = True
            self._check(locked)

    def hear_ack(self, neighbor: Neighbor, message: TotalAck) -> None:
        locked = self.linear.get(message.id)
        if locked is not None:
            locked.acks[neighbor.name] = None
            self._check(locked)

    def _is_ready(self, locked: Locked) -> bool:
        return locked.active and all(name in locked.acks for name in self._state.children)

    def _check(self, locked: Locked) -> None:
        state = self._state
        if self.is_still or not self._is_ready(locked):
            return
        if state.is_root:
            self._process_ready()
        elif state.parent is not None:
            state.outbox.pass_by(state.parent, TotalAck(id_of(locked.lock.bundle)))

    def _process_ready(self) -> None:
        """At the root, those of one client in the order of the client."""
        while True:
            behind: set[str] = set()
            for locked in self.linear.values():
                if locked.lock.bundle.publisher not in behind and self._is_ready(locked):
                    break
                behind.add(locked.lock.bundle.publisher)
            else:
                return
            lock = locked.lock
            self._process(Entry(lock.bundle, lock.hops, None, lock.prompt, lock.number))

    def hear_processed(self, neighbor: Neighbor, message: TotalProcessed) -> None:
        locked = self.linear.get(message.id)
        if locked is not None:
            lock = locked.lock
            self._process(Entry(lock.bundle, message.hops, neighbor.name, lock.prompt, lock.number))

    def _process(self, entry: Entry) -> None:
        state = self._state
        for name in state.children:
            state.outbox.send(name, TotalProcessed(entry.id, entry.hops + 1))
        self._dissemination.deliver(entry)
        self.forget(entry)

    def forget(self, entry: Entry) -> None:
        self._number = max(self._number, entry.tseq + entry.bundle.count - 1)
        self._unlock(entry.id)
        if self.requested.pop(entry.id, None) is not None:
            self._count(entry.bundle.publisher, -1)

    def _unlock(self, id: MessageId) -> None:
        locked = self.linear.pop(id, None)
        if locked is not None:
            for pair in locked.pairs:
                self._queues[pair].remove(locked)
                if not self._queues[pair]:
                    del self._queues[pair]
            if id not in self.requested:
                self._count(id.publisher, -1)
            self.is_due = True

    def go_on(self) -> None:
        """At the end of a step: what waited for pairs that are free now, and then the next that locks them."""
        while self.is_due:
            self.is_due = False
            self._dissemination.release()
            if not self.is_due:
                for locked in list(self.linear.values()):
                    if not locked.active:
                        self._activate(locked)

    def _count(self, publisher: str, more: int) -> None:
        count = self._publishers.pop(publisher, 0) + more
        if count:
            self._publishers[publisher] = count

    # -- after a reconfiguration ---------------------------------------------------------------------------------------

    def verify_pending(self) -> None:
        """A new parent has not heard what was requested and acknowledged; a new root orders what nobody has."""
        for id, entry in list(self.requested.items()):
            if id in self.requested:
                self._send_up(entry)
        for locked in list(self.linear.values()):
            self._check(locked)

    def forget_neighbor(self, name: str) -> None:
        for locked in self.linear.values():
            locked.acks.pop(name, None)

    def answer(self, name: str, waiting: tuple[MessageId, ...]) -> None:
        """A new child locks what is locked here."""
        for lock in self.pending():
            self._send_lock(name, lock)
