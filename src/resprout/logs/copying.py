"""Copies of the compacted part of a log between replicas.

A replica that lacks entries which the others have compacted cannot fetch them one by one any more. It copies the
compacted part of another replica into its spare store, puts it in place, and fetches the entries behind it. If the
other replica compacts meanwhile, or another one answers with another part, the copy begins again.
"""

from typing import Final

import msgspec

from resprout.journal.interface import FetchStore, StoreFetched
from resprout.logs.declaration import LogDeclaration
from resprout.logs.entries import LogEntryStore
from resprout.logs.messages import FETCH_BYTES, LogCopied, LogCopyAsk, LogPort
from resprout.logs.records import CompactedPart, read_entry

READS_MAX: Final = 64
"""Most requests of other replicas that wait for the disk."""
SILENT_TICKS: Final = 4
"""Ticks without an answer after which the copy is given up, so that another replica is asked."""


class CompactedCopies:
    """Answers other replicas that copy the compacted part of this one."""

    def __init__(self, declaration: LogDeclaration, entries: LogEntryStore, port: LogPort) -> None:
        self._declaration = declaration
        self._entries = entries
        self._port = port
        self._readers: dict[int, tuple[str, int, LogCopyAsk]] = {}
        """Pending requests by token: the broker, the compacted part that is read, and the request."""

    def hear_ask(self, broker: str, message: LogCopyAsk) -> None:
        for token in [token for token, (asking, _, _) in self._readers.items() if asking == broker]:
            del self._readers[token]  # a new request replaces the pending one of the same broker
        part = self._entries.compacted
        place = message.place if message.through == part.through else 0
        if not part.through:
            return
        if place >= part.count:
            self._answer(broker, part, place, ())
        elif len(self._readers) < READS_MAX:
            token = self._port.token()
            self._readers[token] = (broker, part.through, msgspec.structs.replace(message, place=place))
            store = self._declaration.compacted[part.store]
            self._port.do(FetchStore(token, store, place, message.size))

    def fetched(self, event: StoreFetched) -> bool:
        """Send what was read. Returns False for a token of another component."""
        asked = self._readers.pop(event.token, None)
        if asked is None:
            return False
        broker, through, message = asked
        if through != self._entries.compacted.through:
            self.hear_ask(broker, message)
        elif not event.reason and event.records and event.records[0].position == message.place:
            records = tuple([kept.record for kept in event.records])
            self._answer(broker, self._entries.compacted, message.place, records)
        return True

    def _answer(self, broker: str, part: CompactedPart, place: int, records: tuple[bytes, ...]) -> None:
        told = LogCopied(self._declaration.key, part.through, part.end, part.time_us, part.count, place, records)
        self._port.send(broker, told)


class CompactedCopy:
    """Copies the compacted part of another replica."""

    def __init__(self, declaration: LogDeclaration, entries: LogEntryStore, port: LogPort) -> None:
        self._declaration = declaration
        self._entries = entries
        self._port = port
        self._broker = ""
        """The broker that it is copied from; empty if nothing is."""
        self._through = 0
        """The part that is copied; 0 before the first answer."""
        self._claim = 0
        self._place = 0
        """Number of entries that were copied."""
        self._size = 0
        self._next = (0, 0)
        """Least number and offset of the next entry."""
        self._ticks = 0

    @property
    def is_running(self) -> bool:
        return bool(self._broker)

    def begin(self, broker: str) -> None:
        """Copy from a broker, unless a copy is made already."""
        if not self._broker:
            self._broker, self._ticks = broker, 0
            self._restart(0)
            self._ask()

    def _restart(self, through: int) -> None:
        self._through, self._place, self._size, self._next = through, 0, 0, (0, 0)
        self._claim = self._entries.claim_spare()

    def _ask(self) -> None:
        ask = LogCopyAsk(self._declaration.key, self._through, self._place, FETCH_BYTES)
        self._port.send(self._broker, ask)

    def stop(self) -> None:
        self._broker = ""

    def tick(self) -> bool:
        """Repeat a request that may be lost. Give up if the broker stays silent, and return whether that is so."""
        if not self._broker:
            return False
        self._ticks += 1
        if self._ticks >= SILENT_TICKS or self._claim != self._entries.claims:
            self.stop()
            return True
        self._ask()
        return False

    def hear(self, broker: str, message: LogCopied) -> bool:
        """Store the entries of an answer. Returns whether the copy is complete and in place."""
        if broker != self._broker or self._claim != self._entries.claims:
            return False
        if message.through <= self._entries.end:  # what it has can be fetched as it is
            self.stop()
            return False
        if message.through != self._through:
            if message.place:
                return False
            self._restart(message.through)
        if message.place != self._place:
            return False  # a repeat
        self._ticks = 0
        if not self._take(message):
            self.stop()
            return False
        if self._place < message.count:
            self._ask()
            return False
        self.stop()
        part = CompactedPart(
            self._entries.compacted.spare, message.through, message.end, message.time_us, self._place, self._size
        )
        self._entries.adopt(part)
        return True

    def _take(self, message: LogCopied) -> bool:
        """Append the entries of an answer. Returns False if no honest replica sends it."""
        if message.count > message.through or self._place + len(message.records) > message.count:
            return False
        if not message.records and self._place < message.count:
            return False
        for record in message.records:
            entry, (number, offset) = read_entry(record), self._next
            if entry is None or entry.number < number or entry.offset < offset:
                return False
            if entry.number >= message.through or entry.following > message.end:
                return False
            self._next = (entry.number + 1, entry.following)
            self._entries.put_spare(record)
            self._place += 1
            self._size += len(record)
        return True
