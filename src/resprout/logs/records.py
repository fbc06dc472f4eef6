"""Encodings of logs: commands of feeders, entries on disk, snapshots of the state, and identities.

Commands come from any broker, and entries from other replicas. Their numbers keep the bounds of messages, and their
bundles the rules of the wire, because they are sent on in messages. A command that breaks them has no effect, at any
replica.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from resprout.core import limits
from resprout.core.bundle import Bundle, from_record, to_record
from resprout.core.errors import WireError
from resprout.core.message_fields import EPOCH_MAX, PLACE_MAX, BoundedNumber, GrowingNumber, Marks, Microseconds
from resprout.logs.positions import StoredPosition
from resprout.wire.bundles import check_head

_TOTALS: Final = EPOCH_MAX << 40 | PLACE_MAX
EntryTotal = Annotated[int, msgspec.Meta(ge=-1, le=_TOTALS - limits.BUNDLE_MESSAGES)]
"""The places of the other messages of a bundle follow."""
CommandTotal = Annotated[int, msgspec.Meta(ge=-1, le=_TOTALS - 2 * limits.BUNDLE_MESSAGES)]
"""An entry may have only the last messages of a command."""
ShortText = Annotated[str, msgspec.Meta(max_length=limits.REASON_BYTES)]


class LogCommand(msgspec.Struct, frozen=True, array_like=True):
    """A command that is decided in a slot: a bundle or a gap mark, with its number in its feed."""

    feed: ShortText
    number: BoundedNumber
    time_us: Microseconds
    """Time at which the feeder received it, in microseconds since 1970 (in virtual time in the simulator)."""
    tseq: CommandTotal
    """Place of a `total` message in the total order; -1 for other messages."""
    bundle: bytes = b""
    gap: ShortText = ""
    """Reason why messages before this command may be missing; empty for a bundle."""
    begins: bool = False
    """Whether this command, which has no messages, marks the beginning of a new subscription."""


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry of a replica: the messages of a bundle, with one offset each, or a gap mark with one offset."""

    number: GrowingNumber
    """Number of entries before this one, which is its position in the store."""
    offset: GrowingNumber
    """Offset of the first message, or of the gap mark."""
    time_us: Microseconds
    """Time of the entry, never lower than that of the entry before."""
    tseq: EntryTotal
    bundle: bytes = b""
    gap: ShortText = ""
    count: Annotated[int, msgspec.Meta(ge=1, le=limits.BUNDLE_MESSAGES)] = 1
    """Number of offsets that the entry takes."""

    @property
    def following(self) -> int:
        """Offset behind this entry."""
        return self.offset + self.count

    @property
    def messages(self) -> Bundle | None:
        """The bundle of this entry; None for a gap mark."""
        return read_bundle(self.bundle) if self.bundle else None


class StateFields(msgspec.Struct, frozen=True, array_like=True):
    next: GrowingNumber
    end: GrowingNumber
    time_us: Microseconds
    feeds: tuple[tuple[str, BoundedNumber], ...]
    marks: Marks
    id: str
    positions: tuple[StoredPosition, ...] = ()


class CompactedPart(msgspec.Struct, frozen=True, array_like=True):
    """The compacted part of a replica: the entries before a number that compaction has kept, in a store of their own.
    It is the result of compacting all entries before that number, so equal at all replicas with the same number."""

    store: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    """Which of the two stores holds it."""
    through: GrowingNumber = 0
    """Number of the first entry behind this part; 0: nothing is compacted."""
    end: GrowingNumber = 0
    """Offset behind this part."""
    time_us: Microseconds = 0
    """Time of the last entry before `through`. Tombstones that were older by the grace time are dropped."""
    count: BoundedNumber = 0
    """Number of entries that were kept."""
    size: BoundedNumber = 0
    """Bytes of these entries."""

    @property
    def spare(self) -> int:
        """The other store, which the next compaction writes."""
        return 1 - self.store


class ReplicaIdentity(msgspec.Struct, frozen=True, array_like=True):
    """The first record in a replica's store of votes. A later one replaces it."""

    identity: str
    founders: tuple[str, ...] = ()
    """Members of the first configuration, if this replica was one of them."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_command: Final = msgspec.msgpack.Decoder(LogCommand).decode
_decode_entry: Final = msgspec.msgpack.Decoder(LogEntry).decode
_decode_state: Final = msgspec.msgpack.Decoder(StateFields).decode
_decode_identity: Final = msgspec.msgpack.Decoder(ReplicaIdentity).decode
_decode_compacted: Final = msgspec.msgpack.Decoder(CompactedPart).decode
_deterministic: Final = msgspec.msgpack.Encoder(order="deterministic").encode

_IDENTITY: Final = b"I"
_LEDGER: Final = b"L"
_COMPACTED: Final = b"C"


def to_bytes(value: LogCommand | LogEntry | StateFields) -> bytes:
    return _encode(value)


def bundle_command(feed: str, number: int, time_us: int, tseq: int, bundle: Bundle) -> bytes:
    return _encode(LogCommand(feed, number, time_us, tseq, to_record(bundle)))


def read_bundle(record: bytes) -> Bundle | None:
    """Return the bundle, or None if no honest broker has written it. Its columns may still be damaged."""
    bundle = from_record(record)
    try:
        if bundle is not None:
            check_head(bundle)
    except WireError:
        return None
    return bundle


def read_command(data: bytes) -> LogCommand | None:
    """Return the command, or None if the bytes are not valid."""
    try:
        return _decode_command(data)
    except msgspec.MsgspecError:
        return None


def read_entry(data: bytes) -> LogEntry | None:
    """Return the entry, or None if the bytes are not valid."""
    try:
        return _decode_entry(data)
    except msgspec.MsgspecError:
        return None


def read_state(data: bytes) -> StateFields:
    """Return the state. Raises ValueError if the bytes are not valid."""
    try:
        return _decode_state(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"the state of a log cannot be read: {error}") from None


def identity_record(identity: ReplicaIdentity) -> bytes:
    return _IDENTITY + _encode(identity)


def ledger_record(record: bytes) -> bytes:
    return _LEDGER + record


def compacted_record(part: CompactedPart) -> bytes:
    return _COMPACTED + _encode(part)


class KeptVotes(msgspec.Struct):
    """What a replica finds in its store of votes."""

    identity: ReplicaIdentity | None = None
    compacted: CompactedPart = CompactedPart()
    ledger: list[bytes] = []
    """Records of `replicas.ledger`."""


def read_votes(records: Sequence[bytes]) -> KeptVotes:
    """Return what the store of votes of a replica holds. Raises ValueError if the bytes are not valid."""
    kept = KeptVotes()
    for record in records:
        try:
            if record[:1] == _LEDGER:
                kept.ledger.append(record[1:])
            elif record[:1] == _IDENTITY:
                kept.identity = _decode_identity(record[1:])
            elif record[:1] == _COMPACTED:
                kept.compacted = _decode_compacted(record[1:])
            else:
                raise ValueError("a record of a replica is of no known kind")
        except msgspec.MsgspecError as error:
            raise ValueError(f"the identity of a replica cannot be read: {error}") from None
    return kept


def fingerprint(payload: bytes, attributes: Mapping[str, Any]) -> str:
    """Return a checksum of a message. Equal messages have equal checksums."""
    return f"{zlib.crc32(_deterministic(dict(attributes)), zlib.crc32(payload)):08x}"
