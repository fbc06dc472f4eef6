"""The turns of an event loop, counted while a client has something to say, and how much of them is spent on saying it.

A loop does not tell which turn it is in, nor how long its turns take. Both tell whether publications follow each other
closely, and whether waiting for more of them pays: where many clients share a loop, a turn may take milliseconds
because each of them sends something in each. What is counted is processor time: a machine with other work must not look
like a program with other work. To ask for it costs as much as a publication, so it is asked for only in turns in which
somebody wants to know.
"""

import asyncio
from time import thread_time
from typing import Final, Protocol
from weakref import WeakKeyDictionary

SMOOTHING: Final = 8
"""What turns took lately is that of about as many times that somebody wanted to know."""

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
        self._looked = 0
        """In which turn it was last asked how busy the loop is."""
        self._looked_at = 0.0
        self._spent = 0.0
        """On sending since then."""
        self._time = 0.0
        self._sending = 0.0
        """That turns took lately, and sending in them."""
        self._is_busy = False
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
        if self._looked != self.turns:
            self._look()
        return self._is_busy

    def join(self, waiting: WaitsForTurn) -> None:
        self._waiting[waiting] = None
        if self.next is None:
            self._looked = self.turns
            self._looked_at = thread_time()
            self._spent = self._time = self._sending = 0.0
            self._is_busy = False
            self.next = self._loop.call_soon(self._turn)

    def leave(self, waiting: WaitsForTurn) -> None:
        self._waiting.pop(waiting, None)

    def spent(self, seconds: float) -> None:
        """On sending, just now."""
        self._spent += seconds

    def _turn(self) -> None:
        self.turns += 1
        still = bool(self._waiting)
        for waiting in list(self._waiting):
            waiting.turn()
        # One more turn after the last has left: it tells what that took, and whether more follow.
        self.next = self._loop.call_soon(self._turn) if still else None

    def _look(self) -> None:
        now = thread_time()
        self._time += now - self._looked_at - self._time / SMOOTHING
        self._sending += self._spent - self._sending / SMOOTHING
        self._looked, self._looked_at, self._spent = self.turns, now, 0.0
        self._is_busy = self._sending > self._time * BUSY_SHARE


_pulses: WeakKeyDictionary[asyncio.AbstractEventLoop, Pulse] = WeakKeyDictionary()
