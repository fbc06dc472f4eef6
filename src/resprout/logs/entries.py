"""The entries of a log at one replica: appended in the order of their numbers; those that are missing are fetched.

A replica that learns a snapshot knows how many entries there are, and may not have the latest of them. It fetches them
from the disks of other replicas. Entries that are decided meanwhile wait in memory, as far as they may, and are fetched
otherwise. Positions in the store are the numbers of entries.
"""

from typing import Final

from resprout.journal.interface import FetchStore, OpenStore, ResetStore, StoreFetched, StoreOpened, StoreRecord
from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import FETCH_BYTES, LogEntries, LogFetch, LogPort
from resprout.logs.records import read_entry

WAITING_BYTES: Final = 4 << 20
"""Of decided entries that wait until those before them are fetched."""
READS_MAX: Final = 64
"""Answers to other replicas that wait for the disk."""


class LogEntryStore:
    def __init__(self, declaration: LogDeclaration, port: LogPort) -> None:
        self._declaration = declaration
        self._port = port
        self.first = 0
        self.end = 0
        """The store has the entries from number `first` up to the one before `end`."""
        self._waiting: dict[int, bytes] = {}
        """By number: decided entries behind one that is missing."""
        self._waiting_bytes = 0
        self._asked: tuple[str, int] | None = None
        """The broker that was asked for entries, and the number of the first."""
        self._readers: dict[int, tuple[str, LogFetch]] = {}
        """By token: who waits for what from the disk."""

    def open(self) -> None:
        self._port.do(OpenStore(self._declaration.entries, self._declaration.entry_options, is_read=False))

    def opened(self, event: StoreOpened) -> None:
        self.first, self.end = event.first, event.end

    # -- what is decided -----------------------------------------------------------------------------------------------

    def put(self, number: int, record: bytes) -> None:
        """Keep a decided entry; one that is there already is left as it is."""
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
        """Ask a broker for what is missing here, unless the same question is under way."""
        if self._asked != (broker, self.end):
            self._asked = (broker, self.end)
            self._port.send(broker, LogFetch(self._declaration.name, self.end, FETCH_BYTES))

    def ask_again(self) -> None:
        """The answer that is awaited may be lost."""
        self._asked = None

    def awaits(self, broker: str, message: LogEntries) -> bool:
        """Whether this answers the latest question."""
        return self._asked == (broker, message.number)

    def hear_entries(self, message: LogEntries) -> bool:
        """Take the answer. Return whether it has brought anything. If the others have dropped what is missing here,
        this store begins anew where theirs begin: numbers and offsets stay."""
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
            del self._readers[token]  # it does not wait for that any more
        if len(self._readers) < READS_MAX:
            token = self._port.token()
            self._readers[token] = (broker, message)
            self._port.do(FetchStore(token, self._declaration.entries, message.number, message.size))

    def fetched(self, event: StoreFetched) -> bool:
        """Answer whoever asked. Return False for a token of another log."""
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
