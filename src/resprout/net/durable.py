"""Lets nothing leave a node before the records that it was listed after are on the disk.

The disk is waited for by a thread, so the event loop goes on meanwhile. Records that come while others are being
written are gathered and written together next: the slower the disk, the more of them share one `fdatasync`. What
waits is executed in the order in which it was listed. Effects that nobody outside can see (timers, notes) do not
wait. How far a record has come when it counts as kept is the journal's flush policy; with `interval` it is brought to
the disk later, from here.

Measured on the development machine (a virtual disk on an SSD, 200-byte records, median): while it was quiet, 0.13 ms
for a write with `fdatasync` in the thread of the loop and 0.32 ms through this thread and back; while others used the
disk, 3.6 ms for either, and 0.12 ms a step with 64 steps under way (`benchmarks/bench_persist.py`). In the thread of
the loop every step would take the full time, and nobody else would be served meanwhile.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from resprout.core.contract import (
    CancelTimer,
    Effect,
    Forget,
    Note,
    Persist,
    SetTimer,
)
from resprout.core.event_journal import EventsFetched, FetchEvents, RecordEvent
from resprout.journal.errors import DiskError
from resprout.journal.journal import Journal
from resprout.journal.options import Flush
from resprout.journal.records import Records

SETTLE_SECONDS_MAX: Final = 5.0

_UNSEEN: Final = frozenset((SetTimer, CancelTimer, Note))


class DurableEffects:
    """Of one life. `execute` is given what may leave; `failed` is told once that nothing can be kept any more, and
    nothing leaves after that."""

    def __init__(
        self,
        records: Records,
        execute: Callable[[Sequence[Effect]], None],
        failed: Callable[[DiskError], None],
        events: Journal | None = None,
    ) -> None:
        self._records = records
        self._events = events
        self._execute = execute
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "records")
        self._gathered: list[Persist | Forget | RecordEvent] = []
        """Written when the disk is free again."""
        self._must_wait = False
        """There are records among what is gathered."""
        self._writing: asyncio.Future[None] | None = None
        self._behind_written: list[Effect] = []
        """Wait for what is being written."""
        self._behind_gathered: list[Effect] = []
        self._flush_due: asyncio.TimerHandle | None = None
        self._over = False

    def pass_on(self, effects: Sequence[Effect]) -> list[Effect]:
        """Takes the effects of one step; returns those that may be executed now."""
        now: list[Effect] = []
        if self._over:
            return now
        for effect in effects:
            if isinstance(effect, Persist | Forget | RecordEvent):
                self._gathered.append(effect)
                self._must_wait = self._must_wait or not isinstance(effect, Forget)
            elif type(effect) in _UNSEEN:
                now.append(effect)
            elif self._must_wait:
                self._behind_gathered.append(effect)
            elif self._writing is not None:
                self._behind_written.append(effect)
            else:
                now.append(effect)
        if self._gathered and self._writing is None:
            self._write()
        return now

    async def settle(self) -> None:
        """Until nothing waits for the disk; not for ever, because disks die, too."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS_MAX):
                while self._writing is not None:
                    await asyncio.wait((self._writing,))

    def stop(self) -> None:
        """What waits is given up. What is being written at this moment may or may not be kept."""
        self._over = True
        if self._flush_due is not None:
            self._flush_due.cancel()
        for waiting in (self._gathered, self._behind_written, self._behind_gathered):
            waiting.clear()
        self._thread.shutdown(wait=False)

    def _write(self) -> None:
        batch, self._gathered = self._gathered, []
        self._must_wait = False
        self._behind_written, self._behind_gathered = self._behind_gathered, []
        self._writing = self._loop.run_in_executor(self._thread, self._keep, batch, time.time_ns() // 1_000)
        self._writing.add_done_callback(self._written)

    def _keep(self, batch: Sequence[Persist | Forget | RecordEvent], time_us: int) -> None:
        """In the thread."""
        events = [effect.event for effect in batch if isinstance(effect, RecordEvent)]
        changes = [effect for effect in batch if not isinstance(effect, RecordEvent)]
        if events:
            if self._events is None:
                raise DiskError("there are events to keep, and no journal for them")
            self._events.append(events, time_us, self._events.next + len(events))
        if changes:
            self._records.apply(changes, time_us)

    def fetch(self, effect: FetchEvents, done: Callable[[EventsFetched], None]) -> None:
        """`done` is called later, unless this life is over by then."""

        def found(reading: "asyncio.Future[EventsFetched]") -> None:
            if not self._over and not reading.cancelled():
                error = reading.exception()
                done(reading.result() if error is None else EventsFetched(effect.token, (), 0, 0, str(error)))

        self._loop.run_in_executor(self._thread, self._read, effect).add_done_callback(found)

    def _read(self, effect: FetchEvents) -> EventsFetched:
        """In the thread, which is also the one that writes: nothing changes meanwhile."""
        if self._events is None:
            return EventsFetched(effect.token, (), 0, 0, "no events are kept here")
        reader = self._events.reader()
        position = effect.position
        if position == -1:
            position = reader.position_at(effect.time_us)
        elif position < 0:
            position = reader.end
        return EventsFetched(effect.token, reader.read(position, effect.size), reader.first, reader.end)

    def _written(self, writing: "asyncio.Future[None]") -> None:
        self._writing = None
        if self._over or writing.cancelled():
            return
        if (error := writing.exception()) is not None:
            self._give_up(error)
            return
        self._flush_later()
        waited, self._behind_written = self._behind_written, []
        self._execute(waited)
        if self._gathered and self._writing is None:
            self._write()

    def _flush_later(self) -> None:
        """What was written is with the system; to the disk it comes within the interval."""
        if self._flush_due is None:
            waits = [j.options.flush_interval_us for j in self._journals() if j.options.flush is Flush.INTERVAL]
            if waits:
                self._flush_due = self._loop.call_later(min(waits) / 1_000_000, self._flush)

    def _journals(self) -> list[Journal]:
        return [self._records.journal, *([self._events] if self._events is not None else [])]

    def _sync(self) -> None:
        """In the thread."""
        for journal in self._journals():
            if journal.options.flush is Flush.INTERVAL:
                journal.sync()

    def _flush(self) -> None:
        self._flush_due = None
        if not self._over:
            self._loop.run_in_executor(self._thread, self._sync).add_done_callback(self._flushed)

    def _flushed(self, flushing: "asyncio.Future[None]") -> None:
        if not self._over and not flushing.cancelled() and (error := flushing.exception()) is not None:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        self.stop()
        self._failed(error if isinstance(error, DiskError) else DiskError(str(error)))
