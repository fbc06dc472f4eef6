"""The entries of a log at one replica, stored in the order of their numbers.

A replica that loads a snapshot knows how many entries the log has, and may lack the latest of them. It fetches these
from other replicas. Entries that are decided meanwhile wait in memory, up to a bound; beyond it they are dropped and
fetched later. The position of a record in the store is the number of its entry.
"""

from typing import Final

from resprout.journal.interface import FetchStore, OpenStore, ResetStore, StoreFetched, StoreOpened, StoreRecord
from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import FETCH_BYTES, LogEntries, LogFetch, LogPort
from resprout.logs.records import read_entry

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
        self._waiting: dict[int, bytes] = {}
        """Decided entries behind a missing one, by number."""
        self._waiting_bytes = 0
        self._asked: tuple[str, int] | None = None
        """The pending fetch: the broker that was asked, and the number of the first entry."""
        self._readers: dict[int, tuple[str, LogFetch]] = {}
        """Pending fetches of other replicas, by token: the broker and its request."""

    def open(self) -> None:
        self._port.do(OpenStore(self._declaration.entries, self._declaration.entry_options, is_read=False))

    def opened(self, event: StoreOpened) -> None:
        self.first, self.end = event.first, event.end

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
        if message.first > self.end:
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
        if len(self._readers) < READS_MAX:
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
        self._port.send(broker, LogEntries(message.log, message.number, records, event.first, event.end))
        return True


def _run_from(number: int, event: StoreFetched) -> tuple[bytes, ...]:
    records: list[bytes] = []
    for kept in event.records:
        if kept.position != number + len(records):
            break
        records.append(kept.record)
    return tuple(records)
