"""Reads of a log at one replica: find the entry that holds an offset, or the first entry from a time on.

Entries are stored by number, and readers name offsets or times. Both rise from entry to entry, so a read does a binary
search. Entries that earlier reads have found narrow it. A page that follows another page needs no search.

Compaction leaves holes between offsets. An entry is found by its index (`entries`): the wanted one is the first entry
that ends behind the offset. When a compacted part was replaced, pending reads begin again.

A read at the end may wait for more (`waits`). It is answered when there is an entry, or after some ticks without one.
"""

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from resprout.journal.interface import FetchStore, Kept, StoreFetched
from resprout.logs.declaration import LogDeclaration
from resprout.logs.entries import LogEntryStore
from resprout.logs.messages import FETCH_BYTES, LogPage, LogPort, LogRead
from resprout.logs.records import LogEntry, read_entry

BY_TIME: Final = -1
LATEST: Final = -2
READS_OF_BROKER_MAX: Final = 512
"""Most pending reads of one broker at a replica."""
READS_MAX: Final = 4_096
"""Most pending reads at a replica, which wait for the disk or for more entries."""
POINTS_MAX: Final = 4_096
FOLLOWING_MAX: Final = 1_024
FIRST_TICKS: Final = 20
"""Ticks between two reads of the first entry."""
WAIT_TICKS: Final = 2
"""Ticks that a read waits for more entries before it gets an empty answer."""


class Wanted(msgspec.Struct, frozen=True):
    """A request. `offset` is where to read from: an offset, `BY_TIME` (the first entry from `time_us` on) or
    `LATEST`."""

    offset: int
    time_us: int = 0
    size: int = FETCH_BYTES
    waits: bool = False


class FoundPage(msgspec.Struct, frozen=True):
    """An answer: entries from the one that holds the offset `begin`; none if no entry holds it."""

    begin: int
    records: Sequence[bytes] = ()
    first: int = 0
    """The first offset that this replica has; `end` is the offset behind the last one."""
    end: int = 0
    first_us: int = 0
    """Time of the first entry; 0 if there is none."""
    reason: str = ""
    """Reason why the read failed; empty if it did not."""
    compacted: int = 0
    """Offset up to which offsets without a message are holes that compaction has made."""
    covered: int = 0
    """Offset up to which the page has everything of a compacted log, if that is beyond its last entry."""


Found = Callable[[FoundPage], None]


class _Point(msgspec.Struct, frozen=True, order=True):
    index: int
    offset: int
    time_us: int


class _Read:
    """One pending read. The index of the wanted entry is one from `low` up to and including `high`."""

    def __init__(self, wanted: Wanted, found: Found) -> None:
        self.wanted = wanted
        self.found = found
        self.low = 0
        self.high = 0
        self.ticks = 0
        self.shift = 0
        """What to add to a position in the store that is being read to have the index."""
        self.claim = 0
        """Value of `LogEntryStore.claims` when it began."""
        self.end = 0
        """Offset behind the last entry when it began: entries that came later are not what it looked for."""
        self.page: StoreFetched | None = None
        """The page that was found, while the first offset is still being read."""


class LogReader:
    def __init__(
        self, declaration: LogDeclaration, entries: LogEntryStore, port: LogPort, end: Callable[[], tuple[int, int]]
    ) -> None:
        """`end` returns the number and the offset behind the last decided entry."""
        self._declaration = declaration
        self._entries = entries
        self._port = port
        self._end = end
        self._reads: dict[int, _Read] = {}
        """Pending reads of the store, by token."""
        self._waiting: list[_Read] = []
        self._points: list[_Point] = []
        """Entries that earlier reads have found, sorted by index."""
        self._following: OrderedDict[int, int] = OrderedDict()
        """Index of the next entry, by the offset at which a page ended."""
        self._ticks = 0
        self._seen_at = 0
        """Number of entries when the first entry was last read."""
        self._first: _Point | None = None
        """The first entry of the store when it was last read."""
        entries.adopted = self._forget

    def read(self, wanted: Wanted, found: Found) -> None:
        if len(self._reads) + len(self._waiting) >= READS_MAX:
            found(FoundPage(max(0, wanted.offset), reason=f"{READS_MAX} reads of the log wait here"))
            return
        read = _Read(wanted, found)
        _, end = self._end()
        if wanted.waits and wanted.offset == end:
            self._waiting.append(read)
        else:
            self._begin(read)

    @property
    def first(self) -> int | None:
        """The first offset of this replica when it was last read; None before that."""
        if not self._end()[0] or not (self._entries.first or self._first) or self._declaration.compact:
            return 0
        return self._first.offset if self._first is not None else None

    def look(self) -> None:
        """Begin the waiting reads for which there are entries now."""
        _, end = self._end()
        ready = [read for read in self._waiting if read.wanted.offset < end]
        if ready:
            self._waiting = [read for read in self._waiting if read.wanted.offset >= end]
            for read in ready:
                self._begin(read)

    def tick(self) -> None:
        """Answer reads that have waited too long, and read the first entry again if it is time."""
        self._refresh_first()
        waiting, self._waiting = self._waiting, []
        for read in waiting:
            read.ticks += 1
            if read.ticks > WAIT_TICKS:
                self._begin(read)
            else:
                self._waiting.append(read)

    def _refresh_first(self) -> None:
        """Read the first entry every `FIRST_TICKS`, if there are new entries: retention drops old ones as new ones
        come."""
        self._ticks += 1
        number, _ = self._end()
        if self._ticks % FIRST_TICKS == 0 and number > self._seen_at and not self._declaration.compact:
            self._seen_at = number
            self._begin(_Read(Wanted(BY_TIME, size=1), lambda page: None))

    def _forget(self) -> None:
        """Forget where entries are, because another compacted part was put in place."""
        self._points.clear()
        self._following.clear()
        self._first = None

    # -- the search ----------------------------------------------------------------------------------------------------

    def _begin(self, read: _Read) -> None:
        number, end = self._end()
        read.claim, read.page, read.end = self._entries.claims, None, end
        read.low, read.high = self._entries.start, self._entries.index_of(number)
        wanted = read.wanted
        if wanted.offset == LATEST or wanted.offset >= end or not number:
            read.low = read.high
        elif wanted.offset == BY_TIME and not wanted.time_us:
            read.high = read.low
        elif (known := self._following.get(wanted.offset)) is not None:
            read.low = read.high = known
        else:
            self._narrow(read)
        self._search(read)

    def _narrow(self, read: _Read) -> None:
        """Narrow the search to the range between two known entries."""
        wanted, points = read.wanted, self._points
        if wanted.offset >= 0:
            at = bisect_right(points, wanted.offset, key=lambda point: point.offset)
        else:
            at = bisect_right(points, wanted.time_us - 1, key=lambda point: point.time_us)
        if at:
            read.low = max(read.low, points[at - 1].index)
        if at < len(points):
            read.high = max(read.low, min(read.high, points[at].index))

    def _search(self, read: _Read) -> None:
        is_found = read.low >= read.high or (read.wanted.offset >= 0 and read.high - read.low == 1)
        self._fetch(read, read.low if is_found else (read.low + read.high) // 2, is_found)

    def _fetch(self, read: _Read, index: int, is_page: bool) -> None:
        token = self._port.token()
        self._reads[token] = read
        store, position = self._entries.locate(index)
        read.shift = index - position
        size = max(1, min(read.wanted.size, FETCH_BYTES)) if is_page else 1
        self._port.do(FetchStore(token, store, position, size))

    def fetched(self, event: StoreFetched) -> bool:
        """Continue the read of this token. Returns False for a token of another component."""
        read = self._reads.pop(event.token, None)
        if read is None:
            return False
        if read.claim != self._entries.claims:
            self._begin(read)
        elif event.reason:
            read.found(FoundPage(max(0, read.wanted.offset), reason=event.reason))
        elif read.page is not None:
            self._learn(event.records, read.shift)
            self._answer(read, read.page)
        elif event.first > read.low and not self._declaration.compact:  # retention has dropped these entries meanwhile
            read.low, read.high = event.first, max(event.first, read.high)
            self._search(read)
        elif read.low >= read.high or (read.wanted.offset >= 0 and read.high - read.low == 1):
            self._complete(read, event)
        else:
            self._halve(read, event)
        return True

    def _halve(self, read: _Read, event: StoreFetched) -> None:
        self._learn(event.records[:1], read.shift)
        entry = read_entry(event.records[0].record) if event.records else None
        if entry is None:
            reason = f"an entry of the log {self._declaration.name} cannot be read here"
            read.found(FoundPage(max(0, read.wanted.offset), reason=reason))
            return
        wanted, index = read.wanted, event.records[0].position + read.shift
        if wanted.offset < 0:
            is_before = entry.time_us < wanted.time_us
            read.low, read.high = (index + 1, read.high) if is_before else (read.low, index)
        elif wanted.offset < entry.offset:
            read.high = index
        else:
            read.low = index
            if wanted.offset < entry.following:
                read.high = index
        self._search(read)

    def _learn(self, records: Sequence[Kept], shift: int) -> None:
        for kept in records[:1]:
            entry = read_entry(kept.record)
            if entry is not None:
                point = _Point(kept.position + shift, entry.offset, entry.time_us)
                at = bisect_right(self._points, point)
                if not at or self._points[at - 1] != point:
                    insort(self._points, point)
                if self._first is None or point.index < self._first.index:
                    self._first = point
        if len(self._points) > POINTS_MAX:
            del self._points[1::2]

    # -- the answer ----------------------------------------------------------------------------------------------------

    def _complete(self, read: _Read, event: StoreFetched) -> None:
        self._learn(event.records, read.shift)
        if self._declaration.compact:
            self._answer_with_holes(read, event)
        elif event.first < event.end and (self._first is None or self._first.index != event.first):
            self._first = None
            read.page = event
            self._fetch(read, event.first, is_page=False)
        else:
            self._answer(read, event)

    def _answer(self, read: _Read, event: StoreFetched) -> None:
        _, end = self._end()
        wanted = read.wanted
        entries = self._decided(event)
        first = self._first
        begin = self._begin_of(read, entries)
        if wanted.offset == LATEST or wanted.offset >= read.end or begin < (entries[0].offset if entries else 0):
            entries = []
        if entries:
            self._remember_end(entries[-1].following, entries[-1].number + 1)
        records = [kept.record for kept in event.records][: len(entries)]
        start = min(first.offset, end) if first is not None else read.end
        read.found(FoundPage(begin, records, start, end, first.time_us if first is not None else 0))

    def _answer_with_holes(self, read: _Read, event: StoreFetched) -> None:
        """Answer a read of a compacted log. It keeps everything from offset 0 on, but for holes."""
        _, end = self._end()
        wanted, part = read.wanted, self._entries.compacted
        entries = self._decided(event)
        index = event.records[0].position + read.shift if event.records else read.low
        skipped = sum(entry.following <= wanted.offset for entry in entries)
        if entries and skipped == len(entries) and wanted.offset < read.end:  # the next one is the wanted one
            read.low = read.high = index + skipped
            self._search(read)
            return
        entries = entries[skipped:]
        begin = self._begin_of(read, entries)
        is_hole = bool(entries) and begin < entries[0].offset
        if wanted.offset == LATEST or wanted.offset >= read.end or (is_hole and entries[0].offset > part.end):
            read.found(FoundPage(begin, (), 0, end))
            return
        behind = index + skipped + len(entries)
        covered = part.end if behind == part.count or not entries else 0
        if entries:
            self._remember_end(max(covered, entries[-1].following), behind)
        records = [kept.record for kept in event.records][skipped : skipped + len(entries)]
        read.found(FoundPage(begin, records, 0, end, 0, "", part.end, covered))

    def _decided(self, event: StoreFetched) -> list[LogEntry]:
        """Return the entries of a page that are decided."""
        number, _ = self._end()
        found = [entry for kept in event.records if (entry := read_entry(kept.record)) is not None]
        return [entry for entry in found if entry.number < number]

    def _begin_of(self, read: _Read, entries: Sequence[LogEntry]) -> int:
        if read.wanted.offset >= 0:
            return read.wanted.offset
        return entries[0].offset if entries and read.wanted.offset == BY_TIME else read.end

    def _remember_end(self, following: int, index: int) -> None:
        """Remember the index of the entry behind a page."""
        self._following[following] = index
        if len(self._following) > FOLLOWING_MAX:
            self._following.popitem(last=False)


class ReadableReplica(Protocol):
    """The part of a replica that `RemoteReads` uses."""

    @property
    def can_read(self) -> bool: ...
    @property
    def origin(self) -> int: ...


class RemoteReads:
    """Reads for clients of other brokers, one page per request."""

    def __init__(self, name: str, broker: str, replica: ReadableReplica, reader: LogReader, port: LogPort) -> None:
        self._name = name
        self._broker = broker
        self._replica = replica
        self._reader = reader
        self._port = port
        self.waiting: dict[str, int] = {}
        """Number of pending reads, by broker."""

    def hear(self, broker: str, message: LogRead) -> None:
        waiting = self.waiting.get(broker, 0)
        if refusal := self._refusal(broker, waiting):
            self._port.send(broker, LogPage(self._name, message.id, max(0, message.offset), (), 0, 0, 0, 0, refusal))
            return
        self.waiting[broker] = waiting + 1

        def found(page: FoundPage) -> None:
            self.waiting[broker] -= 1
            if not self.waiting[broker]:
                del self.waiting[broker]
            records, origin = tuple(page.records), self._replica.origin
            told = LogPage(
                self._name, message.id, page.begin, records, page.first, page.end, page.first_us, origin, page.reason,
                page.compacted, page.covered,
            )  # fmt: skip
            self._port.send(broker, told)

        self._reader.read(Wanted(message.offset, message.time_us, message.size, message.waits), found)

    def _refusal(self, broker: str, waiting: int) -> str:
        """Return the reason why this replica cannot read now, or an empty text."""
        if not self._replica.can_read:
            return f"the replica of the log {self._name} at {self._broker} is not complete, or follows no leader"
        if waiting >= READS_OF_BROKER_MAX:
            return f"{waiting} reads of {broker} wait at the replica of the log {self._name} at {self._broker}"
        return ""
