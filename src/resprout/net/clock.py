"""Time in an event loop: one clock for every process of a machine, so that their traces can be merged; the timers of
one machine; and bytes that leave as late as they would arrive over a slower link.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from resprout.core.contract import Timer

EARLY_SECONDS = 0.000_05
"""Timers of an event loop are not more exact than this."""


def now_us() -> int:
    return time.monotonic_ns() // 1_000


_RELEASED_US: Final = 1_767_225_600_000_000
"""The beginning of 2026: a machine whose clock says less has never set it."""


def epoch_us() -> int:
    """What to add to `now_us()` to have microseconds since 1970."""
    return max(time.time_ns() // 1_000, _RELEASED_US) - now_us()


class LoopAlarms:
    """`fire` is called with each timer that is due."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[Timer], None]) -> None:
        self._loop = loop
        self._fire = fire
        self._handles: dict[Timer, asyncio.TimerHandle] = {}

    def set(self, timer: Timer, delay_us: int) -> None:
        """An equal timer that is set already moves."""
        self.cancel(timer)
        self._handles[timer] = self._loop.call_later(max(0, delay_us) / 1e6, self._due, timer)

    def cancel(self, timer: Timer) -> None:
        if (handle := self._handles.pop(timer, None)) is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _due(self, timer: Timer) -> None:
        self._handles.pop(timer, None)
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
