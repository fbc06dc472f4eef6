"""The bytes of a log: commands that a feeder writes, entries on disk, snapshots of the state, and identities."""

from typing import Final

import msgspec

from resprout.core.bundle import Bundle, from_record, to_record
from resprout.core.message_fields import Marks
from resprout.logs.positions import StoredPosition


class LogCommand(msgspec.Struct, frozen=True, array_like=True):
    """What is decided in a slot: a bundle, or a gap, as the `number`th command of a feed."""

    feed: str
    number: int
    time_us: int
    """When the feeder was handed it, in microseconds since 1970 (virtual ones in the simulator)."""
    tseq: int
    """The place of a total; -1 for what has none."""
    bundle: bytes = b""
    gap: str = ""
    """Why messages before this command may be missing; empty for a bundle."""
    begins: bool = False
    """The subscription of the feed is new, and this command, which brings nothing, stands for its beginning."""


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """What a replica keeps: the messages of a bundle, which have an offset each, or a gap mark, which has one."""

    number: int
    """Entries of the log before this one: its position in the store."""
    offset: int
    """Of its first message, or of the gap mark."""
    time_us: int
    """It never falls from one entry to the next."""
    tseq: int
    bundle: bytes = b""
    gap: str = ""
    count: int = 1
    """Offsets that it takes."""

    @property
    def following(self) -> int:
        """The offset behind it."""
        return self.offset + self.count

    @property
    def messages(self) -> Bundle | None:
        """None for a gap mark."""
        return from_record(self.bundle) if self.bundle else None


class StateFields(msgspec.Struct, frozen=True, array_like=True):
    next: int
    end: int
    time_us: int
    feeds: tuple[tuple[str, int], ...]
    marks: Marks
    id: str
    positions: tuple[StoredPosition, ...] = ()


class ReplicaIdentity(msgspec.Struct, frozen=True, array_like=True):
    """The first record of a replica's votes; a later one replaces it."""

    identity: str
    founders: tuple[str, ...] = ()
    """The first configuration, if this replica was there."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_command: Final = msgspec.msgpack.Decoder(LogCommand).decode
_decode_entry: Final = msgspec.msgpack.Decoder(LogEntry).decode
_decode_state: Final = msgspec.msgpack.Decoder(StateFields).decode
_decode_identity: Final = msgspec.msgpack.Decoder(ReplicaIdentity).decode

_IDENTITY: Final = b"I"
_LEDGER: Final = b"L"


def to_bytes(value: LogCommand | LogEntry | StateFields) -> bytes:
    return _encode(value)


def bundle_command(feed: str, number: int, time_us: int, tseq: int, bundle: Bundle) -> bytes:
    return _encode(LogCommand(feed, number, time_us, tseq, to_record(bundle)))


def read_command(data: bytes) -> LogCommand | None:
    """None for what is no command."""
    try:
        return _decode_command(data)
    except msgspec.MsgspecError:
        return None


def read_entry(data: bytes) -> LogEntry | None:
    """None for what is no entry."""
    try:
        return _decode_entry(data)
    except msgspec.MsgspecError:
        return None


def read_state(data: bytes) -> StateFields:
    """ValueError for other bytes."""
    try:
        return _decode_state(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"the state of a log cannot be read: {error}") from None


def identity_record(identity: ReplicaIdentity) -> bytes:
    return _IDENTITY + _encode(identity)


def ledger_record(record: bytes) -> bytes:
    return _LEDGER + record


def read_votes(records: list[bytes]) -> tuple[ReplicaIdentity | None, list[bytes]]:
    """The identity of a replica, and the records of its ledger. ValueError for other bytes."""
    identity: ReplicaIdentity | None = None
    ledger: list[bytes] = []
    for record in records:
        if record[:1] == _LEDGER:
            ledger.append(record[1:])
        elif record[:1] == _IDENTITY:
            try:
                identity = _decode_identity(record[1:])
            except msgspec.MsgspecError as error:
                raise ValueError(f"the identity of a replica cannot be read: {error}") from None
        else:
            raise ValueError("a record of a replica is of no known kind")
    return identity, ledger
