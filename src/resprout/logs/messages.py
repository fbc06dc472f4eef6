"""Messages between brokers about logs: tags 312 to 319, 321, 322, 325, 326, 329, 336 and 337.

Replicas also exchange those of `replicas`.
Any of these messages may be lost with its session. A broker that needs an answer repeats its request.
"""

from typing import Annotated, Final, Protocol

import msgspec

from resprout.core.contract import BrokerMessage, Effect, ProtocolMessage
from resprout.core.message_fields import BoundedNumber, Derived, GrowingNumber, Microseconds, Otherwise, PositionOffset
from resprout.logs.table import DeclaredLog

FETCH_BYTES: Final = 256 << 10
"""Most bytes of entries in one answer, unless a single entry is larger."""
IDENTITY: Final = "."
"""Separator of broker and life in the identity of a replica. An identity is a valid name on the wire."""
GROUP: Final = "|"
"""Separator of the log and the sender's identity in the group of a replica's messages."""


class LogAsk(BrokerMessage, frozen=True, tag=312):
    """Request of a replica for the members of a log, answered by `LogTold` or `LogFound`. From a member it says that
    the member has read its disk, and heard nothing earlier in this session."""

    log: str
    identity: str
    end: BoundedNumber
    """Number behind the sender's last entry."""

    @property
    def background(self) -> bool:
        return True


class LogTold(BrokerMessage, frozen=True, tag=313):
    """Answer to `LogAsk`: the identity of the sender, the members if it knows them, and the range of its entries."""

    log: str
    identity: str
    members: tuple[str, ...]
    first: BoundedNumber
    end: BoundedNumber

    @property
    def background(self) -> bool:
        return True


class LogFound(BrokerMessage, frozen=True, tag=314):
    """The first members of a log, from the broker that founds it."""

    log: str
    members: tuple[str, ...]


class LogFeed(BrokerMessage, frozen=True, tag=315):
    """Command of a feeder for the leader to append, answered by `LogFed` or `LogLed`."""

    log: str
    feed: str
    number: Annotated[BoundedNumber, Derived("that of the command, which follows the last one", Otherwise.IGNORED)]
    command: bytes

    @property
    def bulk(self) -> int:
        return len(self.command)


class LogFed(BrokerMessage, frozen=True, tag=316):
    """Confirmation of the leader: a majority has all commands of this feed up to a number."""

    log: str
    feed: str
    upto: Annotated[BoundedNumber, Derived("commands of the feed", Otherwise.CUT_OFF)]
    expected: BoundedNumber = 0
    """Number that the leader needs next, if a command is missing; otherwise 0."""


class LogLed(BrokerMessage, frozen=True, tag=317):
    """Answer to a feeder: the broker that leads the log, or an empty name if the sender knows none."""

    log: str
    leader: str


class LogFetch(BrokerMessage, frozen=True, tag=318):
    """Request of a replica for entries from a number on, answered by `LogEntries`."""

    log: str
    number: BoundedNumber
    size: Annotated[int, msgspec.Meta(ge=1, le=FETCH_BYTES)]


class LogEntries(BrokerMessage, frozen=True, tag=319):
    """Answer to `LogFetch`: entries from the requested number on, and the range that the sender has."""

    log: str
    number: BoundedNumber
    records: tuple[bytes, ...]
    first: BoundedNumber
    end: BoundedNumber

    @property
    def bulk(self) -> int:
        return sum(len(record) for record in self.records)


class LogCopyAsk(BrokerMessage, frozen=True, tag=336):
    """Request of a replica for compacted entries, answered by `LogCopied`."""

    log: str
    through: BoundedNumber
    """The compacted part that it has begun to copy, by the number behind it; 0: any."""
    place: BoundedNumber
    """Number of entries of it that it has."""
    size: Annotated[int, msgspec.Meta(ge=1, le=FETCH_BYTES)]


class LogCopied(BrokerMessage, frozen=True, tag=337):
    """Answer to `LogCopyAsk`: compacted entries of the sender. If its compacted part is not the requested one, the
    first ones of the part that it has."""

    log: str
    through: GrowingNumber
    """Number of the first entry behind the compacted part, the offset there, and the time of the entry before."""
    end: GrowingNumber
    time_us: Microseconds
    count: Annotated[BoundedNumber, Derived("`through`", Otherwise.IGNORED)]
    """Number of entries in the compacted part."""
    place: Annotated[BoundedNumber, Derived("the entries that the receiver has", Otherwise.IGNORED)]
    """Number of entries before these."""
    records: tuple[bytes, ...]

    @property
    def bulk(self) -> int:
        return sum(len(record) for record in self.records)


class LogRead(BrokerMessage, frozen=True, tag=321):
    """Request for messages from an offset or a time on, from the broker of a reader. Answered by `LogPage`."""

    log: str
    id: BoundedNumber
    """Number of the request, chosen by the sender."""
    offset: PositionOffset
    """Offset to read from; -1: read from `time_us`; -2: read at the end."""
    time_us: Microseconds
    size: Annotated[int, msgspec.Meta(ge=1, le=FETCH_BYTES)]
    waits: bool = False
    """Whether the answer may wait for more entries when the read begins at the end."""

    @property
    def background(self) -> bool:
        return self.waits


class LogPage(BrokerMessage, frozen=True, tag=322):
    """Answer to `LogRead`: entries from the one that holds the offset `begin`, and the offsets that the replica has."""

    log: str
    id: BoundedNumber
    begin: BoundedNumber
    records: tuple[bytes, ...]
    first: BoundedNumber
    end: BoundedNumber
    first_us: Microseconds
    origin: BoundedNumber
    """Number that differs for an earlier log of the same name."""
    reason: str = ""
    """Reason why this replica cannot read; empty if it can."""
    compacted: Annotated[BoundedNumber, Derived("`end`", Otherwise.LIMITED)] = 0
    """Offset up to which offsets without a message are holes that compaction has made."""
    covered: Annotated[BoundedNumber, Derived("`end`", Otherwise.LIMITED)] = 0
    """Offset up to which the page has everything of a compacted log, if that is beyond its last entry."""

    @property
    def bulk(self) -> int:
        return sum(len(record) for record in self.records)


class LogSettle(BrokerMessage, frozen=True, tag=325):
    """Request to the leader to store, delete or read a stored position, from the broker of a client. Answered by
    `LogSettled`."""

    log: str
    id: BoundedNumber
    """Number of the request, chosen by the sender."""
    name: str
    offset: PositionOffset
    """Offset at which to continue; -1: delete the position; -2: only read it."""
    version: BoundedNumber
    """Version that the client has seen; 0 matches any version, or for a forced change no position."""
    forced: bool
    """Whether the position may go back."""
    owner: str
    """Unique name of a forced change."""
    identity: str = ""
    """Identity of the client; empty if it has proven none."""
    shares: bool = True
    """Whether the client may change positions of other identities."""
    creates: bool = True
    """Whether the client may create a position of this name."""
    adopts: bool = False
    """Whether a position without an identity becomes that of the client."""


class LogSettled(BrokerMessage, frozen=True, tag=326):
    """Answer to `LogSettle`."""

    log: str
    id: BoundedNumber
    offset: PositionOffset
    """Stored offset; -1 if there is none."""
    version: BoundedNumber
    end: BoundedNumber
    """Offset behind the last message of the log."""
    leader: str
    """Leader of the log if the sender does not lead; empty if it knows none."""
    is_leading: bool
    """Whether the sender leads the log, so that this answer is final."""
    reason: str = ""
    """Reason why the position was not changed; empty if it was."""


class LogsDeclared(BrokerMessage, frozen=True, tag=329):
    """What commands have declared, from a neighbour: all of it after a change, and otherwise only its digest. A
    receiver whose digest differs answers with all that it knows."""

    logs: tuple[DeclaredLog, ...]
    digest: BoundedNumber

    @property
    def background(self) -> bool:
        return True


LOG_MESSAGES = (
    LogAsk, LogTold, LogFound, LogFeed, LogFed, LogLed, LogFetch, LogEntries, LogRead, LogPage, LogSettle, LogSettled,
    LogsDeclared, LogCopyAsk, LogCopied,
)  # fmt: skip


class LogPort(Protocol):
    """Effects that a log needs from the broker that hosts it."""

    def write(self, effect: Effect) -> None:
        """Change a store before any message of this step leaves the broker."""

    def send(self, broker: str, message: ProtocolMessage) -> None:
        """Send a message to a broker. It may be lost with the session, together with all messages before it."""

    def do(self, effect: Effect) -> None:
        """Perform an effect: set a timer, read a store, or write a row of the trace."""

    def token(self) -> int:
        """Return a number that identifies a read of a store within this broker."""


def broker_of(identity: str) -> str:
    """Return the broker of the replica with this identity."""
    return identity.rpartition(IDENTITY)[0]


def identity_of(broker: str, life: int) -> str:
    """Return the identity of a replica that starts with an empty disk in this life of the broker."""
    return f"{broker}{IDENTITY}{life}"


def feeding_broker(feed: str) -> str:
    """Return the broker of a feed: `b1` for `b1.4.2.1`, which names the broker, its life, the consumer and the run."""
    return feed.rsplit(IDENTITY, 3)[0]


def group_of(log: str, identity: str) -> str:
    """Return the group for messages and timers of one replica. It names the log and the sender."""
    return f"{log}{GROUP}{identity}"


def speaker_of(group: str) -> tuple[str, str]:
    """Return the log and the identity of the sender from a group."""
    log, _, identity = group.partition(GROUP)
    return log, identity
