"""The entries of a log at one replica, stored in the order of their numbers.

A replica that loads a snapshot knows how many entries the log has, and may lack the latest of them. It fetches these
from other replicas. Entries that are decided meanwhile wait in memory, up to a bound; beyond it they are dropped and
fetched later. The position of a record in the store is the number of its entry.

A compacted log has a compacted part, too: the entries before a number of which compaction has kept some, in another
store. Readers see one sequence: the compacted part, then the store of entries from that number on. The place of an
entry in this sequence is its *index*. Without a compacted part it is its number.

Compaction (`compaction`) and a copy of another replica's compacted part (`copying`) write the spare store, and then
put it in the place of the earlier part (`adopt`). If the process ends before that, nothing has changed.
"""

from collections.abc import Callable
from typing import Final

from resprout.journal.interface import (
    FetchStore,
    OpenStore,
    ResetStore,
    StoreFetched,
    StoreOpened,
    StoreRecord,
    StoreTrim,
)
from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import FETCH_BYTES, LogEntries, LogFetch, LogPort
from resprout.logs.records import CompactedPart, compacted_record, read_entry

WAITING_BYTES: Final = 4 << 20
"""Most bytes of decided entries that wait in memory for earlier ones to be fetched."""
READS_MAX: Final = 64
"""Most fetches of other replicas that wait for the disk."""


class LogEntryStore:
    def __init__(self, declaration: LogDeclaration, port: LogPort) -> None:
        self._declaration = declaration
        self._port = port
        self.first = 0
        self.end = 0
        """The store holds the entries from number `first` up to, but not including, `end`."""
        self.compacted = CompactedPart()
        self.unseen_bytes: int | None = None
        """Bytes of the entries behind the compacted part; None: not counted since the stores were opened."""
        self._sizes: dict[str, tuple[int, int]] = {}
        """First and last position of the stores with compacted entries, when they were opened."""
        self.claims = 0
        """Number of times that the spare store was begun anew, or put in place."""
        self.adopted: Callable[[], None] = lambda: None
        """Called when another compacted part was put in place."""
        self._waiting: dict[int, bytes] = {}
        """Decided entries behind a missing one, by number."""
        self._waiting_bytes = 0
        self._asked: tuple[str, int] | None = None
        """The pending fetch: the broker that was asked, and the number of the first entry."""
        self._readers: dict[int, tuple[str, LogFetch]] = {}
        """Pending fetches of other replicas, by token: the broker and its request."""

    def open(self) -> None:
        for store in (self._declaration.entries, *self._declaration.compacted):
            self._port.do(OpenStore(store, self._declaration.entry_options, is_read=False))

    def opened(self, event: StoreOpened) -> None:
        if event.store == self._declaration.entries:
            self.first, self.end = event.first, event.end
        else:
            self._sizes[event.store] = (event.first, event.end)

    def restore(self, part: CompactedPart) -> None:
        """Begin with the compacted part that the store of votes names, once all stores are open. Raises ValueError if
        something is missing."""
        declared = self._declaration
        if not declared.compact:
            if part.through:
                raise ValueError("it was compacted: declare it with `compact = true` again")
            return
        first, end = self._sizes[declared.compacted[part.store]]
        if part.through and (first or end < part.count):
            raise ValueError(f"the store {declared.compacted[part.store]} lacks some of {part.count} compacted entries")
        if self.first > part.through:
            raise ValueError(f"the entries {part.through} to {self.first - 1} are missing")
        self.compacted = part
        if self.end < part.through:  # a crash came between
            self._begin_at(part.through)
        self.unseen_bytes = 0 if self.end == part.through else None
        spare = declared.compacted[part.spare]
        if self._sizes[spare] != (0, 0):
            self._port.write(ResetStore(spare, 0))

    @property
    def notes(self) -> tuple[bytes, ...]:
        """Records for the store of votes which say what is compacted."""
        return (compacted_record(self.compacted),) if self.compacted.through else ()

    # -- the sequence of all entries -----------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """Index of the first entry that can be read."""
        return 0 if self._declaration.compact else self.first

    def index_of(self, number: int) -> int:
        """Return the index of an entry behind the compacted part."""
        return number - self.compacted.through + self.compacted.count

    def locate(self, index: int) -> tuple[str, int]:
        """Return the store and the position of the entry with an index."""
        part = self.compacted
        if index < part.count:
            return self._declaration.compacted[part.store], index
        return self._declaration.entries, index - part.count + part.through

    # -- another compacted part ----------------------------------------------------------------------------------------

    def claim_spare(self) -> int:
        """Empty the spare store for a new compacted part, and return the number of this claim. Earlier ones end."""
        self.claims += 1
        self._port.write(ResetStore(self._declaration.compacted[self.compacted.spare], 0))
        return self.claims

    def put_spare(self, record: bytes) -> None:
        self._port.write(StoreRecord(self._declaration.compacted[self.compacted.spare], record))

    def adopt(self, part: CompactedPart) -> None:
        """Put the content of the spare store in the place of the compacted part, and drop the entries before its
        end. Each step is on the disk before the next one, so a crash in between loses nothing."""
        declared, before = self._declaration, self.compacted
        self.claims += 1
        self._port.write(StoreTrim(declared.compacted[part.store], 0))
        self._port.write(StoreRecord(declared.votes, compacted_record(part)))
        self._port.write(StoreTrim(declared.entries, min(part.through, self.end)))
        self.compacted = part
        if self.end < part.through:
            self._begin_at(part.through)
            self._take_waiting()
        self._port.write(ResetStore(declared.compacted[before.store], 0))
        self.unseen_bytes = None
        self.adopted()

    # -- what is decided -----------------------------------------------------------------------------------------------

    def put(self, number: int, record: bytes) -> None:
        """Store a decided entry, or keep it in memory until the entries before it are stored. Ignores known entries."""
        if number == self.end:
            self._append(record)
            self._take_waiting()
        elif number > self.end and self._waiting_bytes + len(record) <= WAITING_BYTES:
            self._waiting[number] = record
            self._waiting_bytes += len(record)

    def _append(self, record: bytes) -> None:
        self._port.write(StoreRecord(self._declaration.entries, record))
        self.end += 1
        if self.unseen_bytes is not None:
            self.unseen_bytes += len(record)

    def _take_waiting(self) -> None:
        while self._waiting and (record := self._waiting.pop(self.end, None)) is not None:
            self._waiting_bytes -= len(record)
            self._append(record)
        if self._waiting:
            for number in [number for number in self._waiting if number < self.end]:
                self._waiting_bytes -= len(self._waiting.pop(number))

    # -- fetched from others -------------------------------------------------------------------------------------------

    def fetch(self, broker: str) -> None:
        """Request the missing entries from a broker, unless this request is already pending."""
        if self._asked != (broker, self.end):
            self._asked = (broker, self.end)
            self._port.send(broker, LogFetch(self._declaration.key, self.end, FETCH_BYTES))

    def ask_again(self) -> None:
        """Forget the pending fetch, whose answer may be lost, so that `fetch` sends it again."""
        self._asked = None

    def awaits(self, broker: str, message: LogEntries) -> bool:
        """Whether this message answers the pending fetch."""
        return self._asked == (broker, message.number)

    def hear_entries(self, message: LogEntries) -> bool:
        """Append the entries of an answer, and return whether there were new ones. If the other replica has dropped the
        missing entries, the store restarts at that replica's first entry; numbers and offsets stay as they are."""
        self._asked = None
        before = self.end
        if message.first > self.end and not self._declaration.compact:
            self._begin_at(message.first)
        for place, record in enumerate(message.records):
            entry = read_entry(record)
            if entry is None or entry.number != message.number + place:
                return self.end > before
            if entry.number == self.end:
                self._append(record)
        self._take_waiting()
        return self.end > before

    def _begin_at(self, number: int) -> None:
        self._port.write(ResetStore(self._declaration.entries, number))
        self.first = self.end = number

    # -- read by others ------------------------------------------------------------------------------------------------

    def hear_fetch(self, broker: str, message: LogFetch) -> None:
        for token in [token for token, (asking, _) in self._readers.items() if asking == broker]:
            del self._readers[token]  # a new fetch replaces the pending one of the same broker
        if message.number < self.compacted.through:  # the other replica needs a copy of the compacted part
            self._port.send(broker, LogEntries(message.log, message.number, (), self.compacted.through, self.end))
        elif len(self._readers) < READS_MAX:
            token = self._port.token()
            self._readers[token] = (broker, message)
            self._port.do(FetchStore(token, self._declaration.entries, message.number, message.size))

    def fetched(self, event: StoreFetched) -> bool:
        """Send the fetched entries to the replica that requested them. Returns False for a token of another log."""
        asked = self._readers.pop(event.token, None)
        if asked is None:
            return False
        broker, message = asked
        records = _run_from(message.number, event) if not event.reason else ()
        first = max(event.first, self.compacted.through)
        self._port.send(broker, LogEntries(message.log, message.number, records, first, event.end))
        return True


def _run_from(number: int, event: StoreFetched) -> tuple[bytes, ...]:
    records: list[bytes] = []
    for kept in event.records:
        if kept.position != number + len(records):
            break
        records.append(kept.record)
    return tuple(records)
