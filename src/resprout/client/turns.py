"""When publications leave: at once, at the end of the turn of the event loop, or after some turns together.

A frame, a pass through every broker on the way and a receipt cost the same for one publication as for fifty. A program
that publishes one in each turn of the loop would pay all of it for each. So:

- one that is alone leaves at once, and nothing is counted or measured before it has left: the first one after a pause
  of a program that waits for no receipts, or the next one of a program that waits for receipts and has got them all;
- what follows closely waits as long as every turn brings more, and at most for `GATHER_SECONDS`; where turns take
  longer than that because many clients send in each of them, for at most `GATHER_TURNS`;
- when a task begins to wait for a receipt, everything leaves at the end of that turn.

Turns are counted (`Pulse`) and not only timed, because event loops do not tell the time so finely: a turn without
anything new is the end, and comes within microseconds when the program has nothing more to say.

A loop does not tell which turn it is in, nor how long its turns take. Where many clients share a loop, a turn may take
milliseconds because each of them sends something in each. `Pulse` counts processor time: a machine with other work must
not look like a program with other work. To ask for it costs as much as a publication, so it is asked for only in turns
in which somebody wants to know.
"""

import asyncio
from collections.abc import Callable
from time import monotonic, thread_time
from typing import Final, Protocol
from weakref import WeakKeyDictionary

IDLE_SECONDS: Final = 0.0005
"""After such a pause the next one is the first."""

GATHER_SECONDS: Final = 0.0005
GATHER_TURNS: Final = 8
"""Nothing waits longer than this, and the rest of the turn of the loop."""

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


class Turns:
    """`progress` says something else whenever there is more. `leave` is called when it is time, and calls `over`.
    `leaves`: when something left last; those who are company for each other share it. Many clients in one loop make its
    turns long, so that each by itself would always seem to come after a pause."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        progress: Callable[[], object],
        leave: Callable[[], None],
        leaves: Leaves | None = None,
    ) -> None:
        self._loop = loop
        self._pulse = Pulse.of(loop)
        self._progress = progress
        self._leave = leave
        self._leaves = leaves if leaves is not None else Leaves()
        self.waiting = False
        self._hurries = False
        self._since = 0
        """The turn in which something began to wait."""
        self._until = 0.0
        self._seen: object = None

    @property
    def idle(self) -> bool:
        """Nothing has left for a while, and nobody in this loop gathers."""
        return self._pulse.next is None and monotonic() - self._leaves.last_at > IDLE_SECONDS

    def wait(self, hurry: bool = False) -> None:
        """Let what is there leave with the last of those that follow closely, or with `hurry` at the end of this turn
        of the loop."""
        self.waiting = True
        if hurry:
            self.hurry()
            return
        self._since = self._pulse.turns
        self._until = monotonic() + GATHER_SECONDS
        self._seen = None  # the next turn may begin before the program has had its own: it does not count
        self._pulse.join(self)

    def hurry(self) -> None:
        """Let what waits leave at the end of this turn of the loop."""
        if self.waiting and not self._hurries:
            self._hurries = True
            self._loop.call_soon(self._end_of_turn)

    def turn(self) -> None:
        """Another turn has begun: what waits leaves, or waits for another one."""
        seen = self._progress()
        if seen != self._seen and (monotonic() < self._until or self._may_wait()):
            self._seen = seen
        else:
            self.go()

    def go(self) -> None:
        """Let everything leave that waits, and count what that costs where others of the loop wait for it."""
        if self._pulse.next is None:
            self._leave()
            return
        began = thread_time()
        self._leave()
        self._pulse.spent(thread_time() - began)

    def over(self) -> None:
        """Everything has left."""
        self._leaves.last_at = monotonic()
        if self.waiting:
            self.waiting = False
            self._pulse.leave(self)

    def _end_of_turn(self) -> None:
        self._hurries = False
        if self.waiting:
            self.go()

    def _may_wait(self) -> bool:
        """For some turns more, because clients are what keeps the loop busy."""
        pulse = self._pulse
        return pulse.busy and pulse.turns - self._since < GATHER_TURNS
