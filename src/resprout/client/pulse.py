"""The turns of an event loop, counted while a client has something to say, and how much of them is spent on saying it.

A loop does not tell which turn it is in, nor how long its turns take. Both tell whether publications follow each other
closely, and whether waiting for more of them pays: where many clients share a loop, a turn may take milliseconds
because each of them sends something in each. What is counted is processor time: a machine with other work must not look
like a program with other work.
"""

import asyncio
from time import thread_time
from typing import Final, Protocol
from weakref import WeakKeyDictionary

SMOOTHING: Final = 8
"""What turns took lately is that of about as many."""

BUSY_SHARE: Final = 0.125
"""With more than this, a loop is busy with sending: what comes back because of it, receipts and acknowledgements, costs
it two to three times as much again."""


class WaitsForTurn(Protocol):
    def turn(self) -> None:
        """Another turn has begun."""


class Leaves:
    """When something left last."""

    __slots__ = ("last_at",)

    def __init__(self) -> None:
        self.last_at = 0.0


class Pulse:
    """Of one event loop: `of` finds it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.leaves = Leaves()
        """Of all publications of clients in this loop."""
        self._waiting: dict[WaitsForTurn, None] = {}
        self.next: asyncio.Handle | None = None
        """The next turn, while turns are counted."""
        self._began = 0.0
        self._spent = 0.0
        self._time = 0.0
        self._sending = 0.0
        """That turns took lately, and sending in them."""
        self.turns = 0
        """Only differences mean anything, and only while somebody waits."""

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "Pulse":
        pulse = _pulses.get(loop)
        if pulse is None:
            pulse = _pulses[loop] = cls(loop)
        return pulse

    @property
    def busy(self) -> bool:
        """Turns take as long as they do because of what is sent in them."""
        return self._sending > self._time * BUSY_SHARE

    def join(self, waiting: WaitsForTurn) -> None:
        self._waiting[waiting] = None
        if self.next is None:
            self._began = thread_time()
            self._spent = self._time = self._sending = 0.0
            self.next = self._loop.call_soon(self._turn)

    def leave(self, waiting: WaitsForTurn) -> None:
        self._waiting.pop(waiting, None)

    def spent(self, seconds: float) -> None:
        """On sending, in this turn."""
        self._spent += seconds

    def _turn(self) -> None:
        now = thread_time()
        took = now - self._began
        self._time += took - self._time / SMOOTHING
        self._sending += self._spent - self._sending / SMOOTHING
        self._began = now
        self._spent = 0.0
        self.turns += 1
        still = bool(self._waiting)
        for waiting in list(self._waiting):
            waiting.turn()
        # One more turn after the last has left: it tells what that took, and whether more follow.
        self.next = self._loop.call_soon(self._turn) if still else None


_pulses: WeakKeyDictionary[asyncio.AbstractEventLoop, Pulse] = WeakKeyDictionary()
