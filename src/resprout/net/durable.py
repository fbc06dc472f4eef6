"""Lets nothing leave a node before the records that it was listed after are on the disk.

The disk is waited for by a thread, so the event loop goes on meanwhile. Records that come while others are being
written are gathered and written together next: the slower the disk, the more of them share one `fdatasync`. What
waits is executed in the order in which it was listed. Effects that nobody outside can see (timers, notes) do not
wait, nor do signs of life: they say nothing about records, and a broker whose disk is slow or full is not dead. How
far a record has come when it counts as kept is the journal's flush policy; with `interval` it is brought to the disk
later, from here.

**A write that fails** because the disk is full is tried again until it succeeds, however long that takes: nothing that
was listed after it leaves meanwhile, so nothing is promised that is not kept. An input/output error is tried again for
`EIO_SECONDS_MAX`; any other error ends this life. Events with `when_disk_full = "gap"` are optional: they are left out
instead, whatever the error, and a mark precedes the first event that is kept again (`gap_record`). Until then, readers
get that mark at the end of the journal, so none of them passes over the gap silently. Its position is taken in any
case: if this life ends before it is written, the next life begins with a mark there.

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
from typing import Any, Final

import msgspec

from resprout.core.contract import (
    CancelTimer,
    Effect,
    Forget,
    Note,
    Persist,
    SetTimer,
    Transmit,
)
from resprout.journal.interface import (
    DiskError,
    EventsFetched,
    FetchEvents,
    FetchStore,
    Flush,
    Kept,
    OpenStore,
    RecordEvent,
    ResetStore,
    StoreFetched,
    StoreForget,
    StoreOpened,
    StoreRecord,
    StoreTrim,
    WhenDiskFull,
)
from resprout.journal.journal import Journal, Records
from resprout.links.frames import Data, Express, SessionWelcome
from resprout.net.disk import Rooms, StoreRoom
from resprout.net.log_stores import LogStores, StoreChange

SETTLE_SECONDS_MAX: Final = 5.0
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_MAX: Final = 2.0
"""Between attempts to write what could not be written: doubled from the first to the last."""
EIO_SECONDS_MAX: Final = 30.0
"""How long a broker whose disk says "input/output error" tries again before it ends."""

_Change = Persist | Forget | RecordEvent | StoreChange
_CHANGES: Final = (Persist, Forget, RecordEvent, StoreRecord, StoreForget, StoreTrim, ResetStore)
_UNSEEN: Final = frozenset((SetTimer, CancelTimer, Note))
_SIGN_OF_LIFE: Final[Express[Any]] = Express(1, 0, ())
"""To a client: it has said nothing in this lane, so nothing is acknowledged."""


class LostEvents(msgspec.Struct, frozen=True):
    """Events that were not kept."""

    position: int
    """Behind the last event that was kept before them."""
    bundles: int
    first_us: int
    last_us: int
    """When the first and the last of them were to be written, in microseconds since 1970."""
    reason: str
    earlier_us: int = 0
    """When the last record before them was written; 0 when there is none."""
    marks: tuple[bytes, ...] = ()
    """Marks that were left out, too."""
    is_over: bool = False
    """Events are kept again."""


class _Batch:
    """What is written together. A part that is done is taken out of it, so it can be tried again."""

    def __init__(self, effects: Sequence[_Change]) -> None:
        self.events = [effect for effect in effects if isinstance(effect, RecordEvent)]
        self.changes = [effect for effect in effects if isinstance(effect, Persist | Forget)]
        self.stores: list[StoreChange] = [effect for effect in effects if isinstance(effect, StoreChange)]
        self.unsynced: list[Journal] = []
        """Journals in which it is written, and not on the disk."""


class DurableEffects:
    """Of one life. `execute` is given what may leave; `failed` is told once that nothing can be kept any more, and
    nothing leaves after that. `rooms`: the stores that are written to. `missed` is told of each gap in the events when
    it is over, and `gap_record` makes the record that stands for it in the journal, before the first event that is kept
    again; None for none. `is_client` tells whether a connection is one of a client."""

    def __init__(
        self,
        records: Records,
        execute: Callable[[Sequence[Effect]], None],
        failed: Callable[[DiskError], None],
        events: Journal | None = None,
        rooms: Rooms | None = None,
        missed: Callable[[LostEvents], None] = lambda gap: None,
        is_client: Callable[[int], bool] = lambda connection: False,
        gap_record: Callable[[LostEvents], bytes | None] = lambda gap: None,
        stores: LogStores | None = None,
    ) -> None:
        self._stores = stores
        self._records = records
        self._events = events
        self._execute = execute
        self._failed = failed
        self._rooms = rooms if rooms is not None else Rooms(lambda store, before: None)
        self._missed = missed
        self._is_client = is_client
        self._gap_record = gap_record
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "records")
        self._gathered: list[_Change] = []
        """Written when the disk is free again."""
        self._must_wait = False
        """There are records among what is gathered."""
        self._writing: asyncio.Future[None] | None = None
        self._stuck: asyncio.TimerHandle | None = None
        """What could not be written is tried again then."""
        self._retry_s = RETRY_SECONDS_MIN
        self._failing_since: float | None = None
        self._behind_written: list[Effect] = []
        """Wait for what is being written."""
        self._behind_gathered: list[Effect] = []
        self._greetings: set[int] = set()
        """Connections on which a greeting waits: nothing may overtake it there."""
        self._flush_due: asyncio.TimerHandle | None = None
        self._over = False
        self._gap: LostEvents | None = None
        """Of events that are being left out."""
        self._gaps_over: list[LostEvents] = []
        self._next_try_s = 0.0
        """When to try again to write events, after an error."""

    @property
    def _is_busy(self) -> bool:
        return self._writing is not None or self._stuck is not None

    def pass_on(self, effects: Sequence[Effect]) -> list[Effect]:
        """Takes the effects of one step; returns those that may be executed now."""
        now: list[Effect] = []
        if self._over:
            return now
        for effect in effects:
            if isinstance(effect, _CHANGES):
                self._gathered.append(effect)
                self._must_wait = self._must_wait or not isinstance(effect, Forget | StoreForget | StoreTrim)
            elif type(effect) in _UNSEEN or (not self._must_wait and not self._is_busy):
                now.append(effect)
            elif type(effect) is Transmit and self._overtakes(effect, now):
                pass
            else:
                (self._behind_gathered if self._must_wait else self._behind_written).append(effect)
        if self._gathered and not self._is_busy:
            self._write()
        return now

    def _overtakes(self, effect: Transmit, now: list[Effect]) -> bool:
        """Signs of life leave at once. While nothing can be written, heartbeats would pile up for hours: they are left
        out, because the next one says the same and more. Clients get a sign of life for each frame that is left out or
        waits: as long as messages wait for a client, its session makes no heartbeats."""
        frame, connection = effect.frame, effect.connection
        if type(frame) is SessionWelcome:
            self._greetings.add(connection)
            return False
        if connection in self._greetings:
            return False
        if type(frame) is Express:
            now.append(effect)
            return True
        if self._stuck is not None and type(frame) is Data:
            if self._is_client(connection):
                now.append(Transmit(connection, _SIGN_OF_LIFE))
            return not frame.messages and not frame.hurry
        return False

    async def settle(self) -> None:
        """Until nothing waits for the disk; not for ever, because disks die, too."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS_MAX):
                while self._is_busy:
                    if self._writing is not None:
                        await asyncio.wait((self._writing,))
                    else:
                        await asyncio.sleep(RETRY_SECONDS_MIN)

    def stop(self) -> None:
        """What waits is given up. What is being written at this moment may or may not be kept."""
        self._over = True
        for due in (self._flush_due, self._stuck):
            if due is not None:
                due.cancel()
        gap, self._gap = self._gap, None
        if gap is not None and gap.bundles:
            self._missed(gap)
        for waiting in (self._gathered, self._behind_written, self._behind_gathered):
            waiting.clear()
        self._thread.shutdown(wait=False)

    def _write(self) -> None:
        batch, self._gathered = _Batch(self._gathered), []
        self._must_wait = False
        self._behind_written, self._behind_gathered = self._behind_gathered, []
        self._begin(batch)

    def _begin(self, batch: _Batch) -> None:
        self._stuck = None
        self._writing = self._loop.run_in_executor(self._thread, self._keep, batch, time.time_ns() // 1_000)
        self._writing.add_done_callback(lambda writing: self._written(writing, batch))

    def _keep(self, batch: _Batch, time_us: int) -> None:
        """In the thread. What fails is left in the batch."""
        while batch.unsynced:
            batch.unsynced[-1].sync()
            self._kept_in(batch.unsynced.pop())
        if batch.events:
            if self._events is None:
                raise DiskError("there are events to keep, and no journal for them")
            self._keep_events(self._events, batch, time_us)
        if batch.changes:
            try:
                self._records.apply(batch.changes, time_us)
            except DiskError as error:
                if error.is_written:
                    batch.changes = []
                    batch.unsynced.append(self._records.journal)
                raise
            batch.changes = []
            self._kept_in(self._records.journal)
        if batch.stores:
            if self._stores is None:
                raise DiskError("there is something to keep of a log, and no folder for it")
            self._stores.apply(batch.stores, time_us)
        self._rooms.look()

    def _store_of(self, journal: Journal | None) -> StoreRoom | None:
        return self._rooms.get("events" if journal is self._events else "journal")

    def _kept_in(self, journal: Journal) -> None:
        store = self._store_of(journal)
        if store is not None:
            store.written()

    def _keep_events(self, journal: Journal, batch: _Batch, time_us: int) -> None:
        events = batch.events
        room = self._store_of(journal)
        is_optional = journal.options.when_disk_full is WhenDiskFull.GAP
        is_too_early = room is not None and bool(room.trouble) and time.monotonic() < self._next_try_s
        if is_optional and room is not None and (is_too_early or (room.is_full and not room.trouble)):
            batch.events = []
            self._leave_out(events, journal, time_us, room.line())
            return
        gap = msgspec.structs.replace(self._gap, is_over=True) if self._gap is not None else None
        mark = self._gap_record(gap) if gap is not None else None
        records = [*([mark] if mark is not None else []), *[each.event for each in events]]
        try:
            journal.append(records, time_us, journal.next + len(records))
        except DiskError as error:
            if error.is_written:
                batch.events = []
                self._end_gap(gap)
            if not is_optional:
                if error.is_written:
                    batch.unsynced.append(journal)
                raise
            if room is not None:
                room.failed(str(error))
            self._next_try_s = time.monotonic() + RETRY_SECONDS_MAX
            if batch.events:
                batch.events = []
                self._leave_out(events, journal, time_us, str(error))
            return
        batch.events = []
        self._kept_in(journal)
        self._end_gap(gap)

    def _end_gap(self, gap: LostEvents | None) -> None:
        """The mark that stands for it is written."""
        if gap is not None and gap.bundles:
            self._gaps_over.append(gap)
        self._gap = None

    def _leave_out(self, events: Sequence[RecordEvent], journal: Journal, time_us: int, reason: str) -> None:
        marks = [each.event for each in events if each.is_mark]
        count = len(events) - len(marks)
        gap = self._gap or LostEvents(journal.next, 0, time_us, time_us, reason, journal.last_us)
        self._gap = msgspec.structs.replace(
            gap, bundles=gap.bundles + count, last_us=time_us, marks=(*gap.marks, *marks)
        )
        room = self._store_of(self._events)
        if room is not None:
            room.lost += count

    def fetch(self, effect: FetchEvents, done: Callable[[EventsFetched], None]) -> None:
        """`done` is called later, unless this life is over by then."""

        def found(reading: "asyncio.Future[EventsFetched]") -> None:
            if not self._over and not reading.cancelled():
                error = reading.exception()
                done(reading.result() if error is None else EventsFetched(effect.token, (), 0, 0, str(error)))

        self._loop.run_in_executor(self._thread, self._read, effect).add_done_callback(found)

    def use_store(self, effect: OpenStore | FetchStore, done: Callable[[StoreOpened | StoreFetched], None]) -> None:
        """Open a store, or read it. `done` is called later, unless this life is over by then."""

        def found(using: "asyncio.Future[StoreOpened | StoreFetched]") -> None:
            if not self._over and not using.cancelled():
                done(using.result())

        self._loop.run_in_executor(self._thread, self._use_store, effect).add_done_callback(found)

    def _use_store(self, effect: OpenStore | FetchStore) -> StoreOpened | StoreFetched:
        """In the thread."""
        if self._stores is None:
            if isinstance(effect, OpenStore):
                return StoreOpened(effect.store, (), 0, 0, "a replica of a log needs a data folder")
            return StoreFetched(effect.token, (), 0, 0, "there is no data folder")
        return self._stores.open(effect) if isinstance(effect, OpenStore) else self._stores.fetch(effect)

    def _read(self, effect: FetchEvents) -> EventsFetched:
        """In the thread, which is also the one that writes: nothing changes meanwhile."""
        if self._events is None:
            return EventsFetched(effect.token, (), 0, 0, "no events are kept here")
        reader = self._events.reader()
        gap = self._gap
        mark = self._gap_record(gap) if gap is not None else None
        end = reader.end + (mark is not None)
        position = effect.position
        if position == -1:
            position = reader.position_at(effect.time_us)
        elif position < 0:
            position = reader.end
        events = reader.read(position, effect.size) if position != end else []
        reached = events[-1].position + 1 if events else position
        if mark is not None and reached == reader.end and sum(len(each.record) for each in events) < effect.size:
            events.append(Kept(reached, 0, mark))
        return EventsFetched(effect.token, events, reader.first, end)

    def _written(self, writing: "asyncio.Future[None]", batch: _Batch) -> None:
        self._writing = None
        if self._over or writing.cancelled():
            return
        if (error := writing.exception()) is not None:
            journal = batch.unsynced[-1] if batch.unsynced else self._events if batch.events else self._records.journal
            self._try_again(error, batch, self._store_of(journal))
            return
        self._retry_s = RETRY_SECONDS_MIN
        self._failing_since = None
        self._flush_later()
        waited, self._behind_written = self._behind_written, []
        self._greetings.clear()
        for effect in self._behind_gathered:
            if type(effect) is Transmit and type(effect.frame) is SessionWelcome:
                self._greetings.add(effect.connection)
        self._execute(waited)
        if self._gathered and not self._is_busy:
            self._write()
        self._rooms.tell()
        gaps, self._gaps_over = self._gaps_over, []
        for gap in gaps:
            self._missed(gap)

    def _try_again(self, error: BaseException, batch: _Batch, store: StoreRoom | None) -> None:
        """Later, if that can help."""
        now_s = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now_s
        is_late = now_s - self._failing_since > EIO_SECONDS_MAX
        if not isinstance(error, DiskError) or not (error.is_full or (error.is_passing and not is_late)):
            self._give_up(error)
            return
        if store is not None:
            store.failed(str(error))
        self._stuck = self._loop.call_later(self._retry_s, self._begin, batch)
        self._retry_s = min(RETRY_SECONDS_MAX, 2 * self._retry_s)
        self._rooms.tell()

    def _flush_later(self) -> None:
        """What was written is with the system; to the disk it comes within the interval."""
        if self._flush_due is None:
            waits = [j.options.flush_interval_us for j in self._journals() if j.options.flush is Flush.INTERVAL]
            if waits:
                self._flush_due = self._loop.call_later(min(waits) / 1_000_000, self._flush)

    def _journals(self) -> list[Journal]:
        stores = self._stores.journals if self._stores is not None else []
        return [self._records.journal, *([self._events] if self._events is not None else []), *stores]

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
        """What could not be synced is synced again with the next batch, or the next flush."""
        if self._over or flushing.cancelled() or (error := flushing.exception()) is None:
            return
        if isinstance(error, DiskError) and error.is_passing:
            self._flush_due = self._loop.call_later(RETRY_SECONDS_MAX, self._flush)
        else:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        self.stop()
        self._failed(error if isinstance(error, DiskError) else DiskError(str(error)))
