"""The timers of one machine, on the clock of the event loop."""

import asyncio
from collections.abc import Callable

from resprout.core.contract import Timer


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
