"""Frames of one turn of the event loop, from all connections, as one step of the machine.

Each frame by itself is one pass through the machine, and a frame to each peer that the machine then sends to. A broker
with many publishers hears from many of them in each turn, and what it sends to a subscriber or to a neighbour because
of all of them fits into one frame. So the frames of a turn are taken at its end, together. Nothing waits for a clock:
the turn is over when every connection that has something has been read.

Where nothing else has come for a while, nothing is likely to come in the same turn, and a frame is taken at once.

Connections that send much at once stand in line (`HeavyLine`): one of them is read in each turn of the event loop. So a
connection that sends little waits for one turn of one of them, however many there are.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, Protocol, runtime_checkable

from resprout.core.contract import Arrived, Effect, Machine
from resprout.links.frames import Data

QUIET_SECONDS: Final = 0.000_05
"""After such a pause since the last ones were taken a frame is taken at once. Reads of one turn follow each other
within a few microseconds."""

MESSAGES_MAX: Final = 256
"""With so many messages the end of the turn is not waited for: what the machine wants done because of them is kept
until the last one, and nobody else has a turn before that."""

Steps = Callable[[Sequence[Arrived], int], Sequence[Effect]]


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
        """Nobody is taken any more."""
        self._waiting.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
