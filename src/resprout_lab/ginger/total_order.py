"""Total order as published (section 3.5, figure 3.2), and finishing it after a failure (Algorithms 13 and 14).

A broker that receives a total locks its (topic, key) pairs and sends it to its children in the sub-tree of the topic.
When all of them have acknowledged, the broker acknowledges to its parent, if the total came from there; otherwise it
sends the total to its parent, where the same is done again. The root of the sub-tree tells all brokers that the total
is processed. A total that goes up and one that goes down do not block each other (*keyItemsUp*, *keyItemsDown*).

Known to be wrong: acknowledgements are counted, so that of a dead child counts (G11); two totals that lock one key
below different children of a broker wait for each other for ever (G12). `root_order` replaces this file.
"""

from resprout.core.bundle import Pair
from resprout.core.guarantee import Guarantee
from resprout_lab.ginger.dissemination import Dissemination
from resprout_lab.ginger.messages import MessageId, Metadata, TotalAck, TotalLock, TotalProcessed
from resprout_lab.ginger.state import Entry, Neighbor, State, shown


class Total:
    """An entry of *linearT*."""

    __slots__ = ("acks", "down", "entry", "pairs", "sent_up")

    def __init__(self, entry: Entry, pairs: tuple[Pair, ...], down: bool) -> None:
        self.entry = entry
        self.pairs = pairs
        self.down = down
        """It came from the parent."""
        self.acks: list[str] = []
        """*childrenAcks*."""
        self.sent_up = False


class PublishedTotals:
    def __init__(self, state: State, dissemination: Dissemination) -> None:
        self._state = state
        self._dissemination = dissemination
        self.linear: dict[MessageId, Total] = {}
        """*linearT*."""
        self.locked: dict[tuple[Pair, bool], MessageId] = {}
        """*locked*, by direction."""

    # -- questions -----------------------------------------------------------------------------------------------------

    def is_blocked(self, entry: Entry) -> bool:
        pairs = self._dissemination.pairs(entry)
        if not self.locked or not pairs or entry.id in self.linear:
            return False
        if entry.bundle.guarantee is Guarantee.TOTAL and not entry.processed:
            return any((pair, entry.source == self._state.parent) in self.locked for pair in pairs)
        return any((pair, down) in self.locked for pair in pairs for down in (False, True))

    def has_of(self, publisher: str) -> bool:
        return any(id.publisher == publisher for id in self.linear)

    def waiting(self) -> tuple[MessageId, ...]:
        return tuple(self.linear)

    def pending(self) -> list[TotalLock]:
        """Unprocessed totals are in the buffer here, and travel with it."""
        return []

    def _children(self, entry: Entry) -> list[str]:
        return [name for name in self._state.subscribers(entry.bundle) if name != self._state.parent]

    def _parent(self, entry: Entry) -> str | None:
        """*parentRef*: the parent, if it is in the sub-tree."""
        parent = self._state.parent
        return parent if parent in self._state.subscribers(entry.bundle) else None

    # -- processing ----------------------------------------------------------------------------------------------------

    def receive(self, entry: Entry) -> None:
        """Lock its pairs and send it to the children; or acknowledge again what was locked before."""
        state = self._state
        known = self.linear.get(entry.id)
        if known is not None:
            if (
                state.parent is not None
                and entry.source == state.parent
                and len(known.acks) >= len(self._children(entry))
            ):
                state.log(f"{shown(entry.bundle)} was already acknowledged to parent, resending ack")
                state.outbox.send(state.parent, TotalAck(entry.id))
            return
        if state.seen.has(entry.bundle):
            return
        onward = [name for name in state.subscribers(entry.bundle) if name != entry.source]
        if len(onward) <= 1 and not self._is_member(entry):
            for name in onward:
                state.outbox.send(name, Metadata(entry.bundle, entry.hops + 1, prompt=entry.prompt))
            return
        total = Total(entry, self._dissemination.pairs(entry), entry.source == state.parent)
        self.linear[entry.id] = total
        for pair in total.pairs:
            self.locked[pair, total.down] = entry.id
        state.remember(entry)
        if entry.source in self._children(entry):
            total.acks.append(str(entry.source))
        self._send_to_children(total)
        self._check(total)

    def _is_member(self, entry: Entry) -> bool:
        """It is in the sub-tree of the topic itself, and not only a publisher's broker."""
        state = self._state
        readers = [name for name in state.wishes.table.matches(entry.bundle) if name not in state.neighbors]
        return bool(readers) or entry.source in state.subscribers(entry.bundle)

    def _send_to_children(self, total: Total) -> None:
        entry = total.entry
        for name in self._children(entry):
            if name != entry.source:
                self._state.outbox.send(name, Metadata(entry.bundle, entry.hops + 1, prompt=entry.prompt))

    def _check(self, total: Total) -> None:
        """All children have acknowledged: on to the parent, or processed."""
        state, entry = self._state, total.entry
        if len(total.acks) < len(self._children(entry)):
            return
        parent = self._parent(entry)
        if parent is None:
            self._process(total)
        elif total.down:
            state.outbox.send(parent, TotalAck(entry.id))
        elif not total.sent_up:
            total.sent_up = True
            state.outbox.send(parent, Metadata(entry.bundle, entry.hops + 1, prompt=entry.prompt))

    def hear_lock(self, neighbor: Neighbor, message: TotalLock) -> None:
        """Only with `root_order`."""

    def hear_ack(self, neighbor: Neighbor, message: TotalAck) -> None:
        total = self.linear.get(message.id)
        if total is not None:
            state = self._state
            if state.dead:
                state.log(f"received TotalAck {shown(total.entry.bundle)} from {neighbor.name}")
            total.acks.append(neighbor.name)
            self._check(total)

    def hear_processed(self, neighbor: Neighbor, message: TotalProcessed) -> None:
        total = self.linear.get(message.id)
        if total is not None:
            total.entry.hops = max(total.entry.hops, message.hops)
            self._process(total)

    def _process(self, total: Total) -> None:
        state, entry = self._state, total.entry
        self.forget(entry)
        for name in self._children(entry):
            state.outbox.send(name, TotalProcessed(entry.id, entry.hops + 1))
        self._dissemination.deliver(entry)
        self._dissemination.release()

    def forget(self, entry: Entry) -> None:
        total = self.linear.pop(entry.id, None)
        if total is not None:
            for pair in total.pairs:
                if self.locked.get((pair, total.down)) == entry.id:
                    del self.locked[pair, total.down]

    # -- 4.3.2.4: after a reconfiguration ------------------------------------------------------------------------------

    def verify_pending(self) -> None:
        """*verifyPendingTotalOperations*, Algorithms 13 and 14."""
        state = self._state
        for total in list(self.linear.values()):
            entry = total.entry
            state.log(f"verifying pending total {shown(entry.bundle)}, acknowledged by {total.acks}")
            parent = self._parent(entry)
            total.down &= entry.source in state.neighbors or parent is not None
            if len(total.acks) >= len(self._children(entry)):  # 13, lines 3 to 19
                total.sent_up = False
                self._check(total)
            else:  # 13, lines 20 to 24; 14 begins with the sender's acknowledgement
                state.log("waiting for TotalAcks, resending it to children")
                total.acks = [name for name in self._children(entry) if name == entry.source]
                self._send_to_children(total)

    def forget_neighbor(self, name: str) -> None:
        """As published, the acknowledgements of a dead child stay."""

    def answer(self, name: str, waiting: tuple[MessageId, ...]) -> None:
        """A child waits for these: it hears which of them are processed."""
        for id in waiting:
            entry = self._state.buffer.get(id)
            if entry is not None and entry.processed:
                self._state.outbox.send(name, TotalProcessed(id, entry.hops + 1))
