"""The shell of a broker: events in, effects out, and tables in between.

A stack's broker is a subclass. Its constructor makes the parts and gives the shell the tables: who hears which event,
which peer may say what (`desk`), who is woken by which timer, who acts on what a part found out (an `Outcome`), and
what is done at the end of each step. The shell knows no protocol.

A peer's mistake costs that peer its session and nobody else anything: `cut_off` is told its name and the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from resprout.core.contract import Effect, Event, Outcome, Received, TimerFired
from resprout.core.errors import PeerError
from resprout.stacks.shell.desk import Desk
from resprout.stacks.shell.step import Step

Table = Mapping[type, Callable[[Any], None]]


class Shell:
    def __init__(
        self,
        step: Step,
        *,
        events: Table,
        desks: Sequence[Desk],
        cut_off: Callable[[str, str], None],
        timers: Table,
        outcomes: Table,
        at_end: Sequence[Callable[[], None]],
    ) -> None:
        self._step = step
        self._desks = tuple(desks)
        self._cut_off = cut_off
        self._on_timer = dict(timers)
        self._on_outcome = dict(outcomes)
        self._at_end = tuple(at_end)
        self._on_event: Table = {TimerFired: self._timer_fired, **events}

    def begin(self) -> None:
        """The first thing that a broker does."""

    def start(self, now_us: int) -> Sequence[Effect]:
        out = self._step.begin(now_us)
        self.begin()
        self._end()
        return out

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        step = self._step
        out = step.begin(now_us)
        if step.retired:
            return out
        if type(event) is Received:  # the most frequent, without a detour
            self.hear(event.peer, event.message)
        elif (handler := self._on_event.get(type(event))) is not None:
            handler(event)
        self._end()
        return out

    def hear(self, name: str, message: Any) -> None:
        """What a peer says, at the first desk that takes it."""
        kind = type(message)
        try:
            for desk in self._desks:
                handler = desk.handlers.get(kind)
                if handler is None:
                    if desk.is_only and desk.find(name) is not None:
                        break
                    continue
                found = desk.find(name)
                if found is not None:
                    if desk.check is not None:
                        desk.check(found, message)
                    if desk.heard is not None:
                        desk.heard(name)
                    handler(found, message)
                    return
                if desk.strange is not None:
                    desk.strange(name, message)
                    return
            raise PeerError(f"{kind.__name__} is not for {name} to say")
        except PeerError as error:
            self._cut_off(name, str(error))

    def act(self) -> None:
        """Hand on what the parts found out. Done at the end of each step, and wherever a step goes on in the light of
        it."""
        step = self._step
        while step.outcomes and not step.retired:
            outcome: Outcome = step.outcomes.popleft()
            self._on_outcome[type(outcome)](outcome)

    def _end(self) -> None:
        step = self._step
        if step.outcomes:
            self.act()
        for finish in self._at_end:
            if step.retired:
                return
            finish()
            if step.outcomes:
                self.act()

    def _timer_fired(self, event: TimerFired) -> None:
        handler = self._on_timer.get(type(event.timer))
        if handler is not None:
            handler(event.timer)
