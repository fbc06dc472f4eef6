"""Total order: up to the root, locks on the way down, acknowledgements up, processed down.

The root puts totals in an order and sends each down the tree. A broker lets it hold its (topic, key) pairs once no
earlier one does, and acknowledges when all its children have. With all acknowledgements the root has it processed: it
takes its place among the publications, in FIFO order on every link, and its pairs are free.

While a pair is held, publications of clients that name it wait at their broker, and so does everything behind them from
the same client. Those that arrive from a child wait too, and everything behind them on that link: this is where the
barrier breaks (see the package), and why it breaks nothing else.

Deadlock is impossible: pairs are only ever taken in the root's order, and nothing that a total waits for can be held.
"""

from collections import deque

from resprout.core.bundle import Bundle, Pair, pairs_of
from resprout.core.errors import PeerError
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.messages import ClientMessageId, TotalAck, TotalLock, TotalProcessed, TotalRequest
from resprout_lab.ginger.window import GingerLink, WindowEntry, id_of


class Total:
    """One that the root has ordered and that is not processed here."""

    __slots__ = ("acks", "active", "bundle", "id", "message", "no", "pairs")

    def __init__(self, message: TotalLock) -> None:
        self.message = message
        self.no = message.no
        self.bundle = bundle = message.bundle
        self.id = id_of(bundle)
        self.pairs = pairs_of(bundle.topic, bundle.keys)
        self.active = False
        """It holds its pairs."""
        self.acks: dict[str, None] = {}
        """The children that have said so, by name."""


class GingerTotals:
    def __init__(self, core: GingerCore) -> None:
        self._core = core
        self.requested: dict[ClientMessageId, TotalRequest] = {}
        """On their way up and not processed: asked again of every new parent."""
        self.in_progress: dict[ClientMessageId, Total] = {}
        self._by_no: dict[int, Total] = {}
        self._queues: dict[Pair, deque[Total]] = {}
        self._publishers: dict[str, int] = {}
        self._ordered = 0
        self._processed = 0
        self.waited_for = False
        """Totals were processed: what waited for them may go on, and then the next may take their pairs."""

    # -- questions -----------------------------------------------------------------------------------------------------

    def holds(self, bundle: Bundle) -> bool:
        """Whether a total holds a pair that the publication names."""
        if not self._queues or not bundle.keys:
            return False
        return any(self._is_held(pair) for pair in pairs_of(bundle.topic, bundle.keys))

    def has_of(self, publisher: str) -> bool:
        """Whether a total of this client is known here and not processed."""
        return publisher in self._publishers

    def knows(self, id: ClientMessageId) -> bool:
        return id in self.requested or id in self.in_progress

    def pending(self) -> tuple[TotalLock, ...]:
        return tuple(total.message for total in self.in_progress.values())

    def _is_held(self, pair: Pair) -> bool:
        queue = self._queues.get(pair)
        return queue is not None and queue[0].active

    # -- up ------------------------------------------------------------------------------------------------------------

    def request(self, message: TotalRequest) -> None:
        """Of a local client, or of a child. What is known already goes its way."""
        id = id_of(message.bundle)
        self._core.clock = max(self._core.clock, message.bundle.stamp)
        if self.knows(id) or self._core.seen.has(message.bundle):
            return
        self._count(message.bundle.publisher, 1)
        self.requested[id] = message
        self._send_up(message)

    def _send_up(self, message: TotalRequest) -> None:
        core = self._core
        if core.is_root:
            self._ordered += 1
            no = (core.epoch << 32) + self._ordered
            self.lock(Total(TotalLock(no, message.bundle, message.hops, message.prompt)))
        elif (parent := core.parent) is not None and parent.name not in core.broken:
            core.say(parent, TotalRequest(message.bundle, message.hops + 1, message.prompt))

    # -- down ----------------------------------------------------------------------------------------------------------

    def hear_lock(self, link: GingerLink, message: TotalLock) -> None:
        if not link.is_parent:
            raise PeerError("only a parent orders totals")
        self.lock(Total(message))

    def lock(self, total: Total) -> None:
        """The next one in the root's order."""
        core = self._core
        if total.id in self.in_progress:
            return
        core.clock = max(core.clock, total.bundle.stamp)
        if total.id not in self.requested:
            self._count(total.bundle.publisher, 1)
        self.in_progress[total.id] = self._by_no[total.no] = total
        for pair in total.pairs:
            self._queues.setdefault(pair, deque()).append(total)
        for child in core.children:
            if child not in core.broken:
                core.outbox.pass_by(child, total.message)
        if not self.waited_for:
            self._activate(total)

    def activate_next(self) -> None:
        """What waited for the pairs of processed totals has gone on."""
        self.waited_for = False
        for total in list(self.in_progress.values()):
            self._activate(total)

    def _activate(self, total: Total) -> None:
        if (
            total.id in self.in_progress
            and not total.active
            and all(self._queues[pair][0] is total for pair in total.pairs)
        ):
            total.active = True
            self._acknowledge(total)

    def hear_ack(self, link: GingerLink, message: TotalAck) -> None:
        total = self._by_no.get(message.no)
        if total is not None and not link.is_parent:
            total.acks[link.name] = None
            self._acknowledge(total)

    def forget_acks(self, name: str) -> None:
        """Of a child that died: those that replace it will answer for themselves."""
        for total in self.in_progress.values():
            total.acks.pop(name, None)

    def links_changed(self) -> None:
        """A new parent has not heard what was requested and acknowledged; to another one it says nothing new."""
        for id, message in list(self.requested.items()):
            if id not in self.in_progress:
                self._send_up(message)
        for total in list(self.in_progress.values()):
            self._acknowledge(total)

    def _is_ready(self, total: Total) -> bool:
        return total.active and all(child in total.acks for child in self._core.children)

    def _acknowledge(self, total: Total) -> None:
        core = self._core
        if total.id not in self.in_progress or not self._is_ready(total):
            return
        if core.is_root:
            self._process_ready()
        elif (parent := core.parent) is not None and parent.name not in core.broken:
            core.outbox.pass_by(parent.name, TotalAck(total.no))

    def _process_ready(self) -> None:
        """At the root, those of one client in its order."""
        core = self._core
        while True:
            behind: set[str] = set()
            for total in self.in_progress.values():
                if total.bundle.publisher not in behind and self._is_ready(total):
                    break
                behind.add(total.bundle.publisher)
            else:
                return
            core.clock += 1
            place = (core.epoch << 32) + self._processed + 1
            self._processed += total.bundle.count  # each total of a bundle has a place of its own
            lock = total.message
            entry = WindowEntry(lock.bundle.stamped(core.clock), lock.hops, None, lock.prompt, place)
            self.process(total, entry)

    def hear_processed(self, link: GingerLink, message: TotalProcessed) -> None:
        total = self._by_no.get(message.no)
        if total is None:
            raise PeerError(f"total {message.no} is processed, but was never locked")
        stamped, prompt = total.bundle.stamped(message.stamp), total.message.prompt
        entry = WindowEntry(stamped, message.hops, link.name, prompt, message.place)
        self._core.count_in(link, entry)
        self.process(total, entry)

    def process(self, total: Total, entry: WindowEntry) -> None:
        """It takes its place; what waited for its pairs goes on; then the next may hold them."""
        entry.lock = total.no
        entry.safe = entry.source is not None  # the root shows it only when a child can tell the others
        del self.in_progress[total.id], self._by_no[total.no]
        for pair in total.pairs:
            self._queues[pair].remove(total)
            if not self._queues[pair]:
                del self._queues[pair]
        self.requested.pop(total.id, None)
        self._count(total.bundle.publisher, -1)
        self.waited_for = True
        self._core.take_in(entry)

    def _count(self, publisher: str, more: int) -> None:
        count = self._publishers.pop(publisher, 0) + more
        if count:
            self._publishers[publisher] = count
