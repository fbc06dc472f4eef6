"""Messages between clients and brokers about stored positions of logs, and to create or delete logs: tags 323, 324,
330 and 331."""

import enum
from typing import Annotated

import msgspec

from resprout.core.contract import ClientMessage, ProtocolMessage
from resprout.core.limits import COMPACT_BYTES, COMPACT_GRACE_US
from resprout.core.message_fields import BoundedNumber, Microseconds, PartitionCount, PositionOffset, SeveralPartitions
from resprout.journal.interface import Flush


class AskPosition(ClientMessage, frozen=True, tag=323):
    """Request to store, delete or read the position of a reader of a log. Answered by `PositionTold`."""

    id: BoundedNumber
    """Number of the request, chosen by the client, unique within its incarnation."""
    log: str
    name: str
    offset: PositionOffset
    """Offset at which to continue; -1: delete the position; -2: only read it."""
    version: BoundedNumber = 0
    """Version that the client has seen; 0 matches any version, or for a forced change no position."""
    forced: bool = False
    """Whether the position may go back; a forced change increments the version."""
    owner: str = ""
    """Unique name of a forced change."""


class PositionTold(ProtocolMessage, frozen=True, tag=324):
    """Answer to `AskPosition`."""

    id: BoundedNumber
    offset: PositionOffset
    """Stored offset; -1 if there is none."""
    version: BoundedNumber
    end: BoundedNumber
    """Offset behind the last message of the log."""
    reason: str = ""
    """Reason why the request was refused; empty if it was not."""
    retryable: bool = False
    """Whether the same request may succeed later."""
    partitions: SeveralPartitions = 0
    """Number of partitions of the log, if it has several: the request must name one of them."""


class LogChange(enum.IntEnum):
    CREATE = 0
    DELETE = 1
    MOVE = 2
    """Give the log other replicas."""


class ChangeLog(ClientMessage, frozen=True, tag=330):
    """Request to create, move or delete a log. Answered by `LogChanged`."""

    id: BoundedNumber
    """Number of the request, chosen by the client, unique within its incarnation."""
    change: LogChange
    log: str
    filter: str
    replicas: tuple[str, ...]
    retain_bytes: BoundedNumber
    retain_us: Microseconds
    flush: Flush
    segment_bytes: Annotated[int, msgspec.Meta(ge=4_096, le=1 << 31)]
    partitions: PartitionCount = 1
    compact: bool = False
    compact_grace_us: Microseconds = COMPACT_GRACE_US
    compact_bytes: BoundedNumber = COMPACT_BYTES


class LogChanged(ProtocolMessage, frozen=True, tag=331):
    """Answer to `ChangeLog`: the broker has told its neighbours, unless there is a reason why not."""

    id: BoundedNumber
    reason: str = ""


POSITION_MESSAGES = (AskPosition, PositionTold, ChangeLog, LogChanged)
