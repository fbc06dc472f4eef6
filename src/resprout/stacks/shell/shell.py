"""The shell of a broker: events in, effects out, and tables in between.

A stack's broker is a subclass. Its constructor makes the parts and gives the shell the tables: who hears which event,
which peer may say what (`desk`), who is woken by which timer, who acts on what a part found out (an `Outcome`), and
what is done at the end of each step, or of those that left something to do. The shell knows no protocol.

What comes together may be heard in one go: messages `in_runs` are news that many tell at the same time, and the end of
the step is that of the last of them. Before anything else is heard, what they left to be done is done, so that all is
said in the order in which it would be said one by one.

A peer's mistake costs that peer its session and nobody else anything: `cut_off` is told its name, the reason and
the code. A client that stated a number beyond its bound (`BoundError`) does not come again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from resprout.core.contract import Effect, EndCode, Event, Outcome, Received, Retire, Send, TimerFired
from resprout.core.errors import BoundError, PeerError, StoreError
from resprout.stacks.shell.desk import Desk
from resprout.stacks.shell.step import Step
from resprout.stacks.status import StackStatus, TopicReaders

Table = Mapping[type, Callable[[Any], None]]
GuardOfClients = Callable[[Any, Any], tuple[Any, Sequence[Any]]]
"""Given what a desk found, and a message: what is heard in its place, None for nothing, and what the peer is told."""

CutOff = Callable[[str, str, EndCode], None]
"""Told who made a mistake, which, and the code that ends its session."""
EndOfStep = Callable[[], None]
_ALWAYS: Final = (None,)


class Shell:
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
        """Looks at what clients say before anybody else does, where not all of them may do everything."""
        self.mistakes = 0
        """Of peers that were cut off for it."""
        self.out_of_bounds = 0
        """Peers that were cut off for a number beyond its bound."""
        self._within_run = False
        """The end of the last step is still to come."""
        self._on_event: Table = {TimerFired: self._timer_fired, **events}

    def begin(self) -> None:
        """The first thing that a broker does."""

    # -- what people are told (`stacks.status`) ------------------------------------------------------------------------

    def status(self) -> StackStatus:
        """Where it stands, and what it keeps. A stack that says nothing is shown without it."""
        return StackStatus()

    def readers(self, topic: str) -> TopicReaders:
        """Who gets a publication on a topic from here."""
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
        """What it had put aside cannot be brought back: this life is over."""
        self._step.end_life(Retire(reason, again=True))

    def hear(self, name: str, message: Any) -> bool:
        """What a peer says, at the first desk that takes it. False when it was a mistake."""
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
                if desk.strange is not None:
                    desk.strange(name, message)
                    return True
            raise PeerError(f"{kind.__name__} is not for {name} to say")
        except PeerError as error:
            is_bound = isinstance(error, BoundError)
            self.out_of_bounds += is_bound
            self.mistakes += not is_bound
            self._cut_off(name, str(error), EndCode.OUT_OF_BOUNDS if is_bound else EndCode.NONE)
            return False

    def act(self) -> None:
        """Hand on what the parts found out. Done at the end of each step, and wherever a step goes on in the light of
        it."""
        step = self._step
        while step.outcomes and not step.retired:
            outcome: Outcome = step.outcomes.popleft()
            self._on_outcome[type(outcome)](outcome)

    def _end_run(self) -> bool:
        """False when this life is over with it."""
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
