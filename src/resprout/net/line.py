"""Those who send much at once stand in line: one of them has a turn in each turn of the event loop.

So whoever sends little waits for one turn of one of them, however many there are. They themselves lose nothing but a
look at the other connections between two turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable


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
