"""Restoring communication channels (section 4.3): Algorithms 9 to 12, and when a reconfiguration is complete.

A broker holds the messages that come in while it expects connections (*expectedConnections*) or synchronises its buffer
with somebody (*ongoingReconfiguration*, *missedMessages*). The parent tells its new child the last identifiers that it
has of each client; the child pushes what the parent missed and asks for what it missed itself.

As published both are counters, and what was missed is found by the last identifiers that buffers hold. With
`named_repairs` they are sets of names; with `marks` both sides compare everything that they have ever seen.
"""

from resprout.core.bundle import Origin
from resprout.core.contract import CancelTimer, SetTimer, Timer
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Marks, Reached, from_marks, to_marks
from resprout_lab.ginger.dissemination import Dissemination
from resprout_lab.ginger.messages import (
    LostMessage,
    LostMessageRequest,
    ParentBuffer,
    Retransmitted,
    TotalLock,
)  # fmt: skip
from resprout_lab.ginger.root_order import RootOrder
from resprout_lab.ginger.state import Entry, Neighbor, State, shown
from resprout_lab.ginger.total_order import PublishedTotals


class ConnectionDue(Timer, frozen=True):
    """When to stop waiting for a connection: of the broker that was asked to be the parent, or of any."""

    broker: str


class Reconfiguration:
    def __init__(self, state: State) -> None:
        self._state = state
        self.dissemination: Dissemination
        self.totals: PublishedTotals | RootOrder
        self._by_name = state.options.corrects("named_repairs")
        self._by_marks = state.options.corrects("marks")
        self.expected = 0
        """*expectedConnections*."""
        self.awaited: dict[str, None] = {}
        """The same by name, with `named_repairs`: children of a dead child."""
        self.ongoing = 0
        """*ongoingReconfiguration*."""
        self.synchronising: dict[str, None] = {}
        """The same by name: new neighbours whose half of the exchange is to come."""
        self.missed: dict[Origin, Reached] | None = None
        """*missedMessages*: the last identifiers that the new parent is to send."""
        self.is_seeking = False
        """Its parent failed, and it has no other one; an election included."""
        self.since_us = 0
        self.failed = ""
        """The parent that failed, until the new one has sent what was missed."""
        self._is_running = False

    @property
    def is_holding(self) -> bool:
        if self._by_name:
            return self.is_seeking or bool(self.awaited or self.synchronising)
        return self.is_seeking or self.expected > 0 or self.ongoing > 0 or self.missed is not None

    # -- expected connections ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A failure was detected."""
        if not self._is_running:
            self._is_running = True
            self.since_us = self._state.now_us
        self._hold_totals()

    def expect(self, amount: int, names: tuple[str, ...]) -> None:
        """*setExpectedConnections*."""
        self.expected = max(self.expected, 0) + amount
        self.awaited.update(dict.fromkeys(name for name in names if name not in self._state.dead))
        self._state.log(f"expecting connections from {amount} new neighbors")

    def check_expected(self, name: str) -> None:
        """*checkExpectedConnections*: one has come, or was refused and goes elsewhere."""
        self.expected = max(0, self.expected - 1)
        self.awaited.pop(name, None)
        if not (self.awaited if self._by_name else self.expected):
            self._state.out.append(CancelTimer(ConnectionDue("")))
        self.check_complete()

    def give_up_waiting(self) -> None:
        """Algorithm 8, lines 16 and 17: the timer for any broker expired."""
        self.expected = max(0, self.expected - 1)
        self.awaited.clear()
        if self.expected and not self._by_name:
            self._state.out.append(SetTimer(ConnectionDue(""), self._state.now_us + self._state.options.timer_us))
        self.check_complete()

    # -- Algorithm 10 --------------------------------------------------------------------------------------------------

    def send_last_ids(self, name: str) -> None:
        """The new parent's half."""
        self.ongoing += 1
        self.synchronising[name] = None
        self.begin()
        self._state.outbox.send(name, ParentBuffer(self._last_ids(name)))

    def join(self, name: str) -> None:
        """A broker joins while the overlay is built: there is nothing to exchange but what is locked."""
        self._state.outbox.send(name, ParentBuffer(tuple(self._state.marks.marks())))
        self.totals.answer(name, ())

    def _last_ids(self, child: str = "") -> Marks:
        """By client. As published, of what the buffer holds on topics to which the child subscribes."""
        state = self._state
        if self._by_marks:
            return tuple(state.marks.marks())
        last: dict[Origin, Reached] = {}
        for entry in state.buffer.values():
            if not child or state.whole_tree or child in state.wishes.table.matches(entry.bundle):
                last[entry.bundle.origin] = entry.last
        return to_marks(last)

    # -- Algorithm 11 --------------------------------------------------------------------------------------------------

    def on_parent_buffer(self, neighbor: Neighbor, message: ParentBuffer) -> None:
        """The child's half: push what the parent missed, and ask for what was missed here."""
        state, theirs = self._state, from_marks(message.last_ids)
        if not self.failed:  # it joins: nothing is owed to it of what was before
            for origin, reached in theirs.items():
                state.marks.raise_to(origin, reached)
                if self._by_marks:
                    state.seen.raise_to(origin, reached)
            self._end_synchronising(neighbor.name)
            return
        mine = from_marks(self._last_ids())
        state.log(f"received parent buffer; last received by parent: {_ids(theirs)}; by me: {_ids(mine)}")
        self.missed = {origin: at for origin, at in theirs.items() if at > mine.get(origin, 0)}
        for entry in self._after(theirs):
            state.log(f"parent missed {shown(entry.bundle)}")
            state.outbox.send(neighbor.name, _lost(entry))
        for lock in self.totals.pending():
            lost = LostMessage(lock.bundle, lock.hops, False, number=lock.number)
            state.outbox.send(neighbor.name, lost)
        state.log(f"missed: {_ids(self.missed)}; sending LostMessageRequest to: {neighbor.name}")
        asked = mine if self._by_marks else {origin: mine[origin] for origin in self.missed if origin in mine}
        state.outbox.send(neighbor.name, LostMessageRequest(to_marks(asked), self.totals.waiting()))
        if not self.missed and not self._by_name:
            self._end_synchronising(neighbor.name)

    def _after(self, last: dict[Origin, Reached]) -> list[Entry]:
        """The messages of the buffer behind the last identifiers of somebody else. As published only of those clients
        whose last identifier is in the buffer (Algorithm 11, lines 17 to 23; Algorithm 12, lines 4 to 11)."""
        entries = list(self._state.buffer.values())
        if self._by_marks:
            return [entry for entry in entries if entry.first > last.get(entry.bundle.origin, 0)]
        found: set[Origin] = set()
        after: list[Entry] = []
        for entry in entries:
            origin = entry.bundle.origin
            if entry.last == last.get(origin):
                found.add(origin)
            elif origin in found:
                after.append(entry)
        return after

    # -- Algorithm 12 --------------------------------------------------------------------------------------------------

    def on_lost_message_request(self, neighbor: Neighbor, message: LostMessageRequest) -> None:
        for entry in self._after(from_marks(message.last_ids)):
            self._state.outbox.send(neighbor.name, _lost(entry))
        self._state.outbox.send(neighbor.name, Retransmitted())
        self.totals.answer(neighbor.name, message.waiting)
        self._end_synchronising(neighbor.name)

    def on_lost_message(self, neighbor: Neighbor, message: LostMessage) -> None:
        """A message that this broker missed (Algorithm 9, lines 4 to 23; Algorithm 12, lines 12 and 13)."""
        entry = Entry(message.bundle, message.hops + 1, neighbor.name, place=message.place)
        entry.processed |= message.processed
        if message.bundle.guarantee is Guarantee.TOTAL and not message.processed and message.number:
            assert isinstance(self.totals, RootOrder), "only there totals have numbers"
            self.totals.learn(TotalLock(message.bundle, message.hops + 1, message.number))
            return
        self._state.log(f"Received Metadata {shown(message.bundle)} from: {neighbor.name}")
        self.dissemination.tell_stored(neighbor.name, entry)
        self.dissemination.process(entry)
        if neighbor.name == self._state.parent and self.missed is not None and not self._by_name:
            if self.missed.get(message.bundle.origin) == message.bundle.last:
                del self.missed[message.bundle.origin]
            if not self.missed:
                self.ongoing = 0  # line 15, whoever else is synchronising
                self._end_synchronising(neighbor.name)

    def on_retransmitted(self, neighbor: Neighbor, message: Retransmitted) -> None:
        """With `named_repairs` the parent's word counts, and not the last identifiers."""
        if self._by_name:
            self._end_synchronising(neighbor.name)

    def _end_synchronising(self, name: str) -> None:
        self.ongoing = max(0, self.ongoing - 1)
        self.synchronising.pop(name, None)
        if name == self._state.parent:
            self.missed = None
        self.check_complete()

    def lose(self, name: str) -> None:
        """A neighbour, or one that was expected, is dead."""
        self.awaited.pop(name, None)
        if self.synchronising.pop(name, 0) is None:
            self.ongoing = max(0, self.ongoing - 1)

    def check_complete(self) -> None:
        """*checkOngoingReconfiguration*: finish what a failure interrupted, then release what is held."""
        if self.is_holding or not self._is_running:
            return
        self._is_running = False
        state = self._state
        if self.failed:
            state.note("repair_end", self.failed)
            self.failed = ""
        if state.dead:
            self._state.log(f"reconfiguration completed in {(state.now_us - self.since_us) // 1000} ms")
        self._hold_totals()
        self.totals.verify_pending()
        if any(neighbor.pool for neighbor in state.neighbors.values()):
            state.log("releasing messages on hold...")
        self.dissemination.release()

    def _hold_totals(self) -> None:
        if isinstance(self.totals, RootOrder):
            self.totals.is_still = self.is_holding


def _ids(last: dict[Origin, Reached]) -> str:
    return "{" + ", ".join(f"({origin[0]}, {origin[1][0]}{at})" for origin, at in sorted(last.items())) + "}"


def _lost(entry: Entry) -> LostMessage:
    return LostMessage(entry.bundle, entry.hops, entry.processed, entry.tseq)
