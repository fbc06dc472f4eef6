"""Time and turns in the event loop of a node.

`now_us` is one clock for every process of a machine, so that their traces can be merged. `LoopAlarms` has the timers of
one machine. `LateBytes` delays bytes as a slower link would.

`TurnIntake` collects the frames of one turn of the event loop, from all connections, into one step of the machine. A
frame by itself costs one pass through the machine, and one frame to each peer that the machine then sends to. A broker
with many publishers receives from many of them in each turn, and what it sends to a peer because of all of them fits
into one frame. Nothing waits for a clock: the turn is over when every readable connection has been read. After a pause
no other frame is likely to come in the same turn, and a frame is taken at once.

Connections that send a lot at once wait in a queue (`HeavyLine`): one of them is read in each turn. So a connection
that sends little waits for one turn of one of them, however many there are.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, Protocol, runtime_checkable

from resprout.core.contract import Arrived, Effect, Machine, Timer
from resprout.links.frames import Data

EARLY_SECONDS = 0.000_05
"""Timers of an event loop are not more exact than this."""
EARLY_US_MAX: Final = 1_000
"""By so much an event loop may call too early: uvloop counts in milliseconds."""

QUIET_SECONDS: Final = 0.000_05
"""After such a pause since the last ones were taken a frame is taken at once. Reads of one turn follow each other
within a few microseconds."""

MESSAGES_MAX: Final = 256
"""With so many messages the end of the turn is not waited for: what the machine wants done because of them is kept
until the last one, and nobody else has a turn before that."""

Steps = Callable[[Sequence[Arrived], int], Sequence[Effect]]


def now_us() -> int:
    return time.monotonic_ns() // 1_000


_RELEASED_US: Final = 1_767_225_600_000_000
"""The beginning of 2026: a machine whose clock says less has never set it."""


def epoch_us() -> int:
    """What to add to `now_us()` to have microseconds since 1970."""
    return max(time.time_ns() // 1_000, _RELEASED_US) - now_us()


def wall_us() -> int:
    """Microseconds since 1970."""
    return max(time.time_ns() // 1_000, _RELEASED_US)


class LoopAlarms:
    """The timers of one machine, and its clock. `fire` is called with each timer that is due.

    A machine compares the time of a step with the one that it waits for, and sets no second timer. Event loops call up
    to a millisecond too early, so the clock is set to the time of a timer when that fires. It never goes back.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[Timer], None]) -> None:
        self._loop = loop
        self._fire = fire
        self._handles: dict[Timer, asyncio.TimerHandle] = {}
        self._fired_us = 0
        """The latest time of a timer that has fired."""

    def now_us(self) -> int:
        """Return the time for a step of the machine."""
        now = now_us()
        return now if now > self._fired_us else self._fired_us

    def set(self, timer: Timer, at_us: int) -> None:
        """An equal timer that is set already moves."""
        self.cancel(timer)
        self._handles[timer] = self._loop.call_later(max(0, at_us - now_us()) / 1e6, self._due, timer, at_us)

    def cancel(self, timer: Timer) -> None:
        if (handle := self._handles.pop(timer, None)) is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _due(self, timer: Timer, at_us: int) -> None:
        if at_us - now_us() > EARLY_US_MAX:
            self.set(timer, at_us)
        else:
            del self._handles[timer]
            self._fired_us = max(self._fired_us, at_us)
            self._fire(timer)


class LateBytes:
    """`write` is called with bytes that are due, or with None: the end of the connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, write: Callable[[bytes | None], bool]) -> None:
        self._loop = loop
        self._write = write
        self._late: deque[tuple[float, bytes | None]] = deque()

    def __bool__(self) -> bool:
        """Something has not left yet."""
        return bool(self._late)

    def put(self, data: bytes | None, delay_s: float) -> None:
        due = self._loop.time() + delay_s
        self._late.append((due, data))
        if len(self._late) == 1:
            self._loop.call_at(due, self._send_due)

    def clear(self) -> None:
        self._late.clear()

    def _send_due(self) -> None:
        now = self._loop.time() + EARLY_SECONDS
        while self._late and self._late[0][0] <= now:
            if not self._write(self._late.popleft()[1]):
                return
        if self._late:
            self._loop.call_at(self._late[0][0], self._send_due)


@runtime_checkable
class TakesTogether(Machine, Protocol):
    """A machine that may be given several frames as one step."""

    def steps(self, arrivals: Sequence[Arrived], now_us: int) -> Sequence[Effect]: ...


def together(machine: Machine) -> Steps:
    """How the machine takes several frames; one after the other if it knows no better."""
    one = machine.step

    def one_by_one(arrivals: Sequence[Arrived], now_us: int) -> Sequence[Effect]:
        return [effect for arrival in arrivals for effect in one(arrival, now_us)]

    return machine.steps if isinstance(machine, TakesTogether) else one_by_one


def weight_of(frames: Sequence[Any]) -> int:
    """Messages that they hold; a frame without any is some work, too."""
    weight = 0
    for frame in frames:
        weight += (len(frame.messages) or 1) if type(frame) is Data else 1
    return weight


class TurnIntake:
    """`hand_on` is given what has come, in the order in which it came, and `hand_on_one` a frame that is alone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        hand_on: Callable[[Sequence[Arrived]], None],
        hand_on_one: Callable[[Arrived], None],
    ) -> None:
        self._loop = loop
        self._hand_on = hand_on
        self._hand_on_one = hand_on_one
        self.waiting: list[Arrived] = []
        self._weight = 0
        self._end: asyncio.Handle | None = None
        """The end of the turn in which something waits."""
        self._through_at = 0.0
        """With what was handed on last."""

    def put(self, connection: int, frames: Sequence[Any]) -> None:
        waiting = self.waiting
        # Alone, as nearly always where there is little to do. Some event loops tell the time in milliseconds.
        if not waiting and monotonic() - self._through_at > QUIET_SECONDS:
            if len(frames) == 1:
                self._hand_on_one(Arrived(connection, frames[0]))
            else:
                self._hand_on([Arrived(connection, frame) for frame in frames])
            self._through_at = monotonic()
            return
        waiting += [Arrived(connection, frame) for frame in frames]
        self._weight += weight_of(frames)
        if self._weight >= MESSAGES_MAX:
            self.take()
        elif self._end is None:
            self._end = self._loop.call_soon(self.take)

    def take(self) -> None:
        """What waits, now."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            self._weight = 0
            if len(waiting) == 1:
                self._hand_on_one(waiting[0])
            else:
                self._hand_on(waiting)
            self._through_at = monotonic()

    def clear(self) -> None:
        """Nothing is taken any more."""
        self.waiting.clear()
        self.take()


class HeavyLine:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._turn: asyncio.Handle | None = None

    def join(self, take: Callable[[], None]) -> None:
        """`take` is called when its turn has come, never in this call."""
        self._waiting.append(take)
        if self._turn is None:
            self._turn = self._loop.call_soon(self._next)

    def _next(self) -> None:
        take = self._waiting.popleft()
        self._turn = self._loop.call_soon(self._next) if self._waiting else None
        take()

    def clear(self) -> None:
        """Drop everything that waits for its turn."""
        self._waiting.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
