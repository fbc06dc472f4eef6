"""Hands out the rows of a run while it happens.

Every half second, whatever the processes have saved since the last time becomes one file of a live folder. Reading and
writing are done on a thread of their own: the coordinator has signals to send and processes to hear. Trouble with the
folder ends the handing out, not the run, whose trace is as it would be without.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from resprout.core.errors import ResproutError
from resprout.trace import kinds
from resprout.trace.live_folder import LiveFolder
from resprout.trace.schema import Row

PERIOD_SECONDS: Final = 0.5

Readers = Callable[[], Sequence[Callable[[], list[Row]]]]
"""Whom to ask for new rows; each of those gives what it has not given before."""


class LiveRows:
    """`limit_us`: rows later than this are no part of a run that ends there, and are kept until it is known how the run
    ends."""

    def __init__(self, folder: LiveFolder, limit_us: int, readers: Readers) -> None:
        self._folder = folder
        self._limit_us = limit_us
        self._readers = readers
        self._beyond: list[Row] = []
        self._task: asyncio.Task[None] | None = None
        self.trouble: ResproutError | None = None
        """Why not all rows were handed out."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._hand_out())

    async def end(self, last: Row) -> None:
        """Hands out the rest, and then the last row. Every row must have been saved by now. Only the first call counts:
        what ended is over."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait((self._task,))
        self._task = None
        if self.trouble is None:
            await self._try(lambda: self._finish(last))

    async def _hand_out(self) -> None:
        while self.trouble is None:
            await asyncio.sleep(PERIOD_SECONDS)
            work = asyncio.ensure_future(self._try(self._write_new))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await work  # what a thread has begun is not left half done
                raise

    async def _try(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(work)
        except ResproutError as error:
            self.trouble = error

    def _write_new(self) -> None:
        self._folder.write(self._new())

    def _finish(self, last: Row) -> None:
        rows = self._new()
        if last.kind != kinds.TIMEOUT:
            rows += self._beyond
        self._folder.write([*rows, last])

    def _new(self) -> list[Row]:
        rows = [row for read in self._readers() for row in read()]
        rows.sort(key=lambda row: row.time_us)
        self._beyond += [row for row in rows if row.time_us > self._limit_us]
        return [row for row in rows if row.time_us <= self._limit_us]
