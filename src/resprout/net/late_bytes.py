"""Emulates the latency of a link: bytes leave as late as they would arrive."""

import asyncio
from collections import deque
from collections.abc import Callable

EARLY_SECONDS = 0.000_05
"""Timers of an event loop are not more exact than this."""


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
