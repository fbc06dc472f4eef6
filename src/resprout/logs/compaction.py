"""Compaction by key: a replica of a log with `compact` drops messages that have a later one with the same key.

The key of a message is its topic together with all its keys, in order; without keys the topic alone. The messages of a
bundle have equal topics and keys, so of each entry at most the last message is kept. A message with an empty payload is
a *tombstone*: it is dropped, too, once it is older than the grace time. Gap marks are kept.

Offsets do not change: dropped messages leave holes. Compacting all entries before a number is a function of these
entries and that number, because the time of the last of them decides which tombstones are too old. It does not matter
whether a replica has compacted up to lower numbers before:

- A message that an earlier pass dropped has a later one with the same key, or is a tombstone that is still older now.
- The last message of a key was the last one in every earlier pass that saw it.

So each replica compacts by itself, when it has enough new entries, and replicas with the same number have equal
compacted parts.

A pass reads the entries behind the compacted part, and notes the last entry of each key. If there are too many keys,
it ends before the entry that would add one more. Then it copies what is left of the compacted part, and of these
entries, to the spare store. It reads one page of a store at a time.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from resprout.core.bundle import Bundle, split, to_record, unpack_attributes, unpack_payloads
from resprout.core.contract import Note
from resprout.core.errors import WireError
from resprout.core.guarantee import Guarantee
from resprout.journal.interface import FetchStore, StoreFetched
from resprout.logs.declaration import LogDeclaration
from resprout.logs.entries import LogEntryStore
from resprout.logs.messages import LogPort
from resprout.logs.records import CompactedPart, LogEntry, fingerprint, read_entry, to_bytes

KEYS_MAX: Final = 1 << 18
"""Most keys that one pass remembers."""
PAGE_BYTES: Final = 64 << 10
"""Bytes that one step of a pass reads, unless a single entry is larger."""
COPY_TICKS: Final = 4
"""Ticks for which a pass waits after another replica has asked for a part of the copy that it makes."""
COPY_TICKS_MAX: Final = 2_400
"""Ticks in a row for which it waits at most (10 minutes)."""
COMPACTED: Final = "log_compacted"
"""Kind of the rows about dropped messages."""

_encode: Final = msgspec.msgpack.Encoder().encode


def key_of(bundle: Bundle) -> bytes:
    """Return a digest of the key that the messages of a bundle have."""
    return blake2b(_encode((bundle.topic, bundle.keys)), digest_size=16).digest()


def last_part(entry: LogEntry, bundle: Bundle) -> tuple[LogEntry, Bundle]:
    """Return an entry with only the last message, at its offset. An entry that cannot be divided stays whole."""
    if entry.count == 1 or bundle.count != entry.count:
        return entry, bundle
    try:
        last = split(bundle, bundle.last - 1)[1]
    except WireError:
        return entry, bundle
    tseq = entry.tseq + entry.count - 1 if entry.tseq >= 0 else entry.tseq
    offset = entry.following - 1
    return LogEntry(entry.number, offset, entry.time_us, tseq, to_record(last), "", 1), last


def is_tombstone(bundle: Bundle) -> bool:
    """Whether a bundle is one message with an empty payload."""
    if bundle.count > 1:
        return False
    try:
        return unpack_payloads(bundle) == [b""]
    except WireError:
        return False


class _Pass:
    """One compaction, of all entries before the number `through`."""

    def __init__(self, through: int, claim: int, counts: bool) -> None:
        """`counts`: the bytes of the new entries are not known yet."""
        self.through = through
        self.last: dict[bytes, int] = {}
        """Number of the last entry of each key, of the entries behind the compacted part."""
        self.bytes = 0
        """Bytes of these entries."""
        self.end = 0
        self.time_us = 0
        """Offset behind the last of these entries, and its time."""
        self.claim = claim
        """Claim on the spare store when the pass began, and its own one once it writes."""
        self.writes = False
        self.is_cut = False
        """Whether there were too many keys for all entries."""
        self.counts = counts
        self.index = 0
        """Index of the next entry to read."""
        self.count = 0
        self.size = 0
        """Entries that were kept so far, and their bytes."""


class LogCompactor:
    def __init__(
        self, declaration: LogDeclaration, entries: LogEntryStore, port: LogPort, is_traced: bool = False
    ) -> None:
        """`is_traced`: write a row for each dropped message, for the judge of a run."""
        self._declaration = declaration
        self._entries = entries
        self._port = port
        self._is_traced = is_traced
        self._pass: _Pass | None = None
        self._token = 0
        """Token of the pending read of a store."""
        self._copied_ago = COPY_TICKS
        """Ticks since another replica has asked for a part of a copy."""
        self._waited = 0
        self.trouble = ""
        """Reason why the last pass failed; no other one begins. Empty if none has."""

    @property
    def is_busy(self) -> bool:
        return self._pass is not None

    # -- when to compact -----------------------------------------------------------------------------------------------

    def note_copy(self) -> None:
        """Another replica makes a copy of the compacted part, and would have to begin again after a pass."""
        self._copied_ago = 0

    def tick(self) -> None:
        """Begin a pass if there are enough new entries, or if their bytes are not known."""
        if not self._declaration.compact or self._pass is not None or self.trouble:
            return
        self._copied_ago += 1
        if self._copied_ago < COPY_TICKS and self._waited < COPY_TICKS_MAX:
            self._waited += 1
            return
        entries = self._entries
        if entries.unseen_bytes is None or self._is_enough(entries.unseen_bytes):
            self._waited = 0
            counts, entries.unseen_bytes = entries.unseen_bytes is None, entries.unseen_bytes or 0
            if entries.end > entries.compacted.through:
                self._pass = _Pass(entries.end, entries.claims, counts)
                self._pass.index = entries.compacted.count
                self._pass.end, self._pass.time_us = entries.compacted.end, entries.compacted.time_us
                self._read(self._pass)

    def _is_enough(self, size: int) -> bool:
        """Whether so many bytes of new entries are worth a pass, which writes all that it keeps again."""
        return size >= max(1, self._declaration.compact_bytes, self._entries.compacted.size)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, one: _Pass) -> None:
        store, position = self._entries.locate(one.index)
        self._token = self._port.token()
        self._port.do(FetchStore(self._token, store, position, PAGE_BYTES))

    def fetched(self, event: StoreFetched) -> bool:
        """Continue a pass. Returns False for a token of another component."""
        if event.token != self._token:
            return False
        self._token = 0
        one = self._pass
        if one is None or one.claim != self._entries.claims:
            self._pass = None  # another compacted part has taken its place
            return True
        found = self._found(one, event)
        if not found:
            return True
        take = self._copy if one.writes else self._note
        for record, entry in found:
            if one.index >= self._behind(one) or not take(one, entry, record):
                break
            one.index += 1
        if one.index < self._behind(one):
            self._read(one)
        elif one.writes:
            self._finish(one)
        else:
            self._begin_copy(one)
        return True

    def _found(self, one: _Pass, event: StoreFetched) -> list[tuple[bytes, LogEntry]]:
        """Return the entries of a page; none if they cannot be read, and the pass ends."""
        _, position = self._entries.locate(one.index)
        read = [(kept.record, read_entry(kept.record)) for kept in event.records]
        found = [(record, entry) for record, entry in read if entry is not None]
        if event.reason or not found or len(found) < len(read) or event.records[0].position != position:
            name = self._declaration.name
            self.trouble = event.reason or f"an entry of the log {name} cannot be read here: it is not compacted"
            self._pass = None
            self._port.do(Note("log", {"detail": f"{name} is not compacted here: {self.trouble}"}))
            return []
        return found

    def _behind(self, one: _Pass) -> int:
        """Return the index behind the last entry of a pass."""
        return self._entries.index_of(one.through)

    # -- the last entry of each key ------------------------------------------------------------------------------------

    def _note(self, one: _Pass, entry: LogEntry, record: bytes) -> bool:
        """Note the key of an entry. Returns False if the pass ends before it."""
        bundle = entry.messages
        if bundle is not None:
            key = key_of(bundle)
            if key not in one.last and len(one.last) >= KEYS_MAX:
                one.through, one.is_cut = entry.number, True
                return False
            one.last[key] = entry.number
        one.bytes += len(record)
        one.end, one.time_us = entry.following, entry.time_us
        return True

    def _begin_copy(self, one: _Pass) -> None:
        entries = self._entries
        if one.counts and entries.unseen_bytes is not None:
            entries.unseen_bytes += one.bytes
        if not one.is_cut and not self._is_enough(one.bytes):
            self._pass = None
            return
        one.index, one.writes = 0, True
        one.claim = entries.claim_spare()
        self._read(one)

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _copy(self, one: _Pass, entry: LogEntry, record: bytes) -> bool:
        """Write an entry to the spare store, if something of it is kept."""
        bundle = entry.messages
        if bundle is None:
            return self._keep(one, record)
        if one.last.get(key_of(bundle), entry.number) != entry.number:
            self._trace(one, entry, bundle, entry.count)
            return True
        kept, last = last_part(entry, bundle)
        is_gone = is_tombstone(last) and kept.time_us + self._declaration.compact_grace_us <= one.time_us
        self._trace(one, entry, bundle, entry.count - (0 if is_gone else kept.count))
        return True if is_gone else self._keep(one, record if kept is entry else to_bytes(kept))

    def _keep(self, one: _Pass, record: bytes) -> bool:
        self._entries.put_spare(record)
        one.count += 1
        one.size += len(record)
        return True

    def _finish(self, one: _Pass) -> None:
        self._pass = None
        part = CompactedPart(
            self._entries.compacted.spare, one.through, one.end, one.time_us, one.count, one.size
        )  # fmt: skip
        self._entries.adopt(part)

    def _trace(self, one: _Pass, entry: LogEntry, bundle: Bundle, count: int) -> None:
        """Write rows about the first `count` messages of an entry, which are dropped."""
        if not self._is_traced or not count:
            return
        is_total = bundle.guarantee is Guarantee.TOTAL and entry.tseq >= 0
        try:
            found = list(zip(unpack_payloads(bundle), unpack_attributes(bundle), strict=True))
        except WireError:
            return
        for place, (payload, attributes) in enumerate(found[:count]):
            about = {
                "log": self._declaration.name, "crc": fingerprint(payload, attributes), "at": str(entry.time_us),
                "until": str(one.time_us), **({} if payload else {"empty": "yes"}),
            }  # fmt: skip
            columns = {
                "publisher": bundle.publisher, "incarnation": bundle.incarnation, "stream": bundle.stream,
                "seq": bundle.first + place, "topic": bundle.topic, "keys": bundle.keys,
                "guarantee": bundle.guarantee.label, "position": entry.offset + place,
                "tseq": entry.tseq + place if is_total else None, "payload_bytes": len(payload), "attributes": about,
            }  # fmt: skip
            self._port.do(Note(COMPACTED, columns))
