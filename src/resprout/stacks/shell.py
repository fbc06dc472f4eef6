"""The shell of a broker: events in, effects out, and tables in between.

A stack's broker is a subclass. Its constructor makes the parts and gives the shell the tables: who hears which event,
which peer may say what (`desk`), who is woken by which timer, who acts on what a part found out (an `Outcome`), and
what is done at the end of each step, or of those that left something to do. The shell knows no protocol.

Messages `in_runs` are news that many peers tell at the same time. Those that come together are heard in one go, and the
end of the step is that of the last of them. Before anything else is heard, what they left to be done is done, so that
all is said in the order in which it would be said one by one.

A peer's mistake costs that peer its session and nobody else anything: `cut_off` is told its name, the reason and
the code. A client that stated a number beyond its bound (`BoundError`) does not come again.

`Step` holds the buffers of one step: what it writes to disk, its other effects, what its parts found out, and the time.
Records come first in the effects of a step, whenever in the step a part has asked for them (`effects`). A driver
lets nothing leave before the records that precede it are durable, so no part has to mind in which order it writes and
sends: everything that a step says rests on what that step has written. Signs of life are the exception that drivers
make: they say nothing about records, and leave at once. The state that the parts of a broker share is a subclass of
`Step`, so that every part writes to the same buffers.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from resprout.core.contract import (
    Effect,
    EndCode,
    Event,
    Forget,
    Note,
    Outcome,
    Persist,
    Received,
    Retire,
    Send,
    TimerFired,
)
from resprout.core.errors import BoundError, PeerError, StoreError
from resprout.edge.broker.ports import LogAccess, ValueOwners
from resprout.stacks.desk import Desk, end_code
from resprout.stacks.status import StackStatus, TopicReaders

Table = Mapping[type, Callable[[Any], None]]
GuardOfClients = Callable[[Any, Any], tuple[Any, Sequence[Any]]]
"""Given what a desk found, and a message: what is heard in its place, None for nothing, and what the peer is told."""

CutOff = Callable[[str, str, EndCode], None]
"""Told who made a mistake, which, and the code that ends its session."""
EndOfStep = Callable[[], None]
_ALWAYS: Final = (None,)


class Step:
    """The buffers of one step: records, effects, outcomes, and the time."""

    def __init__(self) -> None:
        self.now_us = 0
        self.out: list[Effect] = []
        """Effects of this step but for `records`, in order."""
        self.records: list[Effect] = []
        """What this step writes to disk, in order; it leaves the step before everything in `out`."""
        self.outcomes: deque[Outcome] = deque()
        """What parts found out that is for others to act on. The shell hands each to whoever its table names, when the
        part has done what it was asked for."""
        self.retired = False
        """Whether this life is over: nothing is done any more."""

    def begin(self, now_us: int) -> list[Effect]:
        self.now_us = now_us
        self.out = []
        if self.records:
            self.records = []
        return self.out

    def persist(self, record: bytes) -> None:
        """Write a record before anything that this step says leaves the broker."""
        self.records.append(Persist(record))

    def forget_records(self, count: int) -> None:
        """Keep only the latest so many records, those that this step has written so far included."""
        self.records.append(Forget(count))

    def effects(self) -> list[Effect]:
        """Everything that the step wants, records first."""
        return [*self.records, *self.out] if self.records else self.out

    def note(self, kind: str, detail: str, **columns: Any) -> None:
        self.out.append(Note(kind, {"detail": detail, **columns}))

    def end_life(self, retire: Retire) -> None:
        """End this life; only the first call counts."""
        if not self.retired:
            self.retired = True
            self.out.append(retire)


class Shell:
    """Dispatches events, messages, timers and outcomes of one broker to its parts."""

    def __init__(
        self,
        step: Step,
        *,
        events: Table,
        desks: Sequence[Desk],
        cut_off: CutOff,
        timers: Table,
        outcomes: Table,
        at_end: Sequence[EndOfStep | tuple[Collection[object], EndOfStep]],
        in_runs: Collection[type] = (),
    ) -> None:
        """`at_end`: what is done at the end of each step, in this order; with a place where parts leave something to be
        done, only while there is anything."""
        self._step = step
        self.desks = tuple(desks)
        """Which peer may say what."""
        self._cut_off = cut_off
        self._on_timer = dict(timers)
        self._on_outcome = dict(outcomes)
        self._at_end = tuple([row if isinstance(row, tuple) else (_ALWAYS, row) for row in at_end])
        self._in_runs = frozenset(in_runs)
        self.guard: GuardOfClients | None = None
        """Checks a client's message against its rights before it is handled; None where all clients may do
        everything."""
        self.log_access: LogAccess | None = None
        """To be filled in by the driver of a broker that reads logs for clients."""
        self.value_owners: ValueOwners | None = None
        """To be filled in by the driver of a broker with rules, where the stack keeps last values."""
        self.mistakes = 0
        """Peers that were cut off for a mistake."""
        self.out_of_bounds = 0
        """Peers that were cut off for a number beyond its bound."""
        self._within_run = False
        """Whether the end of the last step is deferred, because more messages of a run follow."""
        self._on_event: Table = {TimerFired: self._timer_fired, **events}

    def add_handlers(
        self, events: Table, timers: Table, at_end: Sequence[tuple[Collection[object], EndOfStep]] = ()
    ) -> None:
        """Extend the tables, for a broker that does more than the class that it derives from."""
        self._on_event = {**self._on_event, **events}
        self._on_timer.update(timers)
        self._at_end = (*at_end, *self._at_end)

    def begin(self) -> None:
        """Start the broker: called once, before any event."""

    # -- what people are told (`stacks.status`) ------------------------------------------------------------------------

    def status(self) -> StackStatus:
        """Return what the broker tells people about itself; empty unless the stack overrides it."""
        return StackStatus()

    def readers(self, topic: str) -> TopicReaders:
        """Return who gets a publication on a topic from here."""
        return TopicReaders()

    # -- the contract --------------------------------------------------------------------------------------------------

    def start(self, now_us: int) -> Sequence[Effect]:
        self._step.begin(now_us)
        self.begin()
        self._end()
        return self._step.effects()

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        step = self._step
        out = step.begin(now_us)
        if step.retired:
            return out
        try:
            if type(event) is Received:  # the most frequent, without a detour
                message = event.message
                if type(message) in self._in_runs:
                    self._within_run = self.hear(event.peer, message) and event.more
                    if self._within_run:
                        if step.outcomes:
                            self.act()
                        return step.effects()
                elif not self._within_run or self._end_run():
                    self.hear(event.peer, message)
            elif not self._within_run or self._end_run():
                handler = self._on_event.get(type(event))
                if handler is not None:
                    handler(event)
            self._end()
        except StoreError as error:
            out.clear()  # as if it had died before this step
            step.records.clear()
            self.store_failed(str(error))
        return step.effects()

    def store_failed(self, reason: str) -> None:
        """End this life: what it had put on disk cannot be read back."""
        self._step.end_life(Retire(reason, again=True))

    def hear(self, name: str, message: Any) -> bool:
        """Hand a message to the first desk that knows the peer and the message. Return False when it was a mistake."""
        kind = type(message)
        try:
            for desk in self.desks:
                handler = desk.handlers.get(kind)
                if handler is None:
                    if desk.is_only and desk.find(name) is not None:
                        break
                    continue
                found = desk.find(name)
                if found is not None:
                    if desk.check is not None:
                        desk.check(found, message)
                    if self.guard is not None and desk.is_guarded:
                        message, answers = self.guard(found, message)
                        self._step.out.extend([Send(name, answer) for answer in answers])
                        if message is None:
                            return True
                    if desk.heard is not None:
                        desk.heard(name, self._step.now_us)
                    handler(found, message)
                    return True
                if desk.unknown_peer is not None:
                    desk.unknown_peer(name, message)
                    return True
            raise PeerError(f"{kind.__name__} is not for {name} to say")
        except PeerError as error:
            is_bound = isinstance(error, BoundError)
            self.out_of_bounds += is_bound
            self.mistakes += not is_bound
            self._cut_off(name, str(error), end_code(error))
            return False

    def act(self) -> None:
        """Hand outcomes to the parts that act on them: at the end of each step, and wherever a step depends on them."""
        step = self._step
        while step.outcomes and not step.retired:
            outcome: Outcome = step.outcomes.popleft()
            self._on_outcome[type(outcome)](outcome)

    def _end_run(self) -> bool:
        """Finish the run of messages that was deferred. Return False when this life is over with it."""
        self._within_run = False
        self._end()
        return not self._step.retired

    def _end(self) -> None:
        step = self._step
        if step.outcomes:
            self.act()
        for left, finish in self._at_end:
            if left:
                if step.retired:
                    return
                finish()
                if step.outcomes:
                    self.act()

    def _timer_fired(self, event: TimerFired) -> None:
        handler = self._on_timer.get(type(event.timer))
        if handler is not None:
            handler(event.timer)
