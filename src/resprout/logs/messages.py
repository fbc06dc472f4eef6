"""What brokers say to each other about logs, beside what the replicas of `replicas` say. Tags 312 to 319 and 321 to
329.

Any of these may be lost with a session. Nothing rests on an answer: whoever needs one asks again.
"""

from typing import Annotated, Final, Protocol

import msgspec

from resprout.core.contract import BrokerMessage, Effect, ProtocolMessage
from resprout.core.message_fields import BoundedNumber, Derived, Microseconds, Otherwise, PositionOffset

FETCH_BYTES: Final = 256 << 10
"""Of entries in one answer, unless a single one is larger."""
IDENTITY: Final = "."
"""Between the broker and the life in the identity of a replica: an identity is a name, as the wire knows them."""
GROUP: Final = "|"
"""Between the log and the identity of the speaker in the group of a replica's messages."""


class LogAsk(BrokerMessage, frozen=True, tag=312):
    """By a replica that is no member: who is a member of this log? Answered by `LogTold`, or by `LogFound`. By a
    member: it has read its disk, and has heard nothing before this."""

    log: str
    identity: str
    end: BoundedNumber
    """It has every entry before the one with this number."""

    @property
    def background(self) -> bool:
        return True


class LogTold(BrokerMessage, frozen=True, tag=313):
    """Answer to `LogAsk`: the identity of this replica, the members if it knows them, and the numbers of the
    entries that it has."""

    log: str
    identity: str
    members: tuple[str, ...]
    first: BoundedNumber
    end: BoundedNumber

    @property
    def background(self) -> bool:
        return True


class LogFound(BrokerMessage, frozen=True, tag=314):
    """The first members of a log."""

    log: str
    members: tuple[str, ...]


class LogFeed(BrokerMessage, frozen=True, tag=315):
    """From a feeder to the leader: append this. Answered by `LogFed`, or by `LogLed`."""

    log: str
    feed: str
    number: Annotated[BoundedNumber, Derived("that of the command, which follows the last one", Otherwise.IGNORED)]
    command: bytes

    @property
    def bulk(self) -> int:
        return len(self.command)


class LogFed(BrokerMessage, frozen=True, tag=316):
    """From the leader: a majority has every command of this feed up to a number."""

    log: str
    feed: str
    upto: Annotated[BoundedNumber, Derived("commands of the feed", Otherwise.CUT_OFF)]
    expected: BoundedNumber = 0
    """The number that the leader needs next, where a command is missing; 0: none is."""


class LogLed(BrokerMessage, frozen=True, tag=317):
    """To a feeder: this broker leads the log; empty when that is not known."""

    log: str
    leader: str


class LogFetch(BrokerMessage, frozen=True, tag=318):
    """By a replica: the entries from this number on, please. Answered by `LogEntries`."""

    log: str
    number: BoundedNumber
    size: Annotated[int, msgspec.Meta(ge=1, le=FETCH_BYTES)]


class LogEntries(BrokerMessage, frozen=True, tag=319):
    """Answer to `LogFetch`: records from this number on, and which numbers the replica has."""

    log: str
    number: BoundedNumber
    records: tuple[bytes, ...]
    first: BoundedNumber
    end: BoundedNumber

    @property
    def bulk(self) -> int:
        return sum(len(record) for record in self.records)


class LogRead(BrokerMessage, frozen=True, tag=321):
    """By the broker of a reader: what is there from an offset or a time on? Answered by `LogPage`."""

    log: str
    id: BoundedNumber
    """Chosen by the speaker."""
    offset: PositionOffset
    """From here on; -1: from a time on; -2: the end."""
    time_us: Microseconds
    size: Annotated[int, msgspec.Meta(ge=1, le=FETCH_BYTES)]
    waits: bool = False
    """At the end, the answer may wait for more."""

    @property
    def background(self) -> bool:
        return self.waits


class LogPage(BrokerMessage, frozen=True, tag=322):
    """Answer to `LogRead`: entries, from the one that holds the offset `begin`, and which offsets the replica has."""

    log: str
    id: BoundedNumber
    begin: BoundedNumber
    records: tuple[bytes, ...]
    first: BoundedNumber
    end: BoundedNumber
    first_us: Microseconds
    origin: BoundedNumber
    """Tells this log from an earlier one of the same name."""
    reason: str = ""
    """Why this replica cannot read; empty when it can."""

    @property
    def bulk(self) -> int:
        return sum(len(record) for record in self.records)


class LogSettle(BrokerMessage, frozen=True, tag=325):
    """By the broker of a client, to the leader: change a position that readers have stored, or tell it. Answered by
    `LogSettled`."""

    log: str
    id: BoundedNumber
    """Chosen by the speaker."""
    name: str
    offset: PositionOffset
    """Where to go on reading; -1: forget the position; -2: only tell it."""
    version: BoundedNumber
    """The one that the client has seen; 0: any, or none yet for one that is forced."""
    forced: bool
    """It may go back."""
    owner: str
    """Of a forced one: a name that no other change has."""


class LogSettled(BrokerMessage, frozen=True, tag=326):
    """Answer to `LogSettle`."""

    log: str
    id: BoundedNumber
    offset: PositionOffset
    """As it is stored; -1: there is none."""
    version: BoundedNumber
    end: BoundedNumber
    """The offset behind the last message."""
    leader: str
    """Who leads the log, if the speaker does not; empty when it is not known."""
    is_leading: bool
    """Whether the speaker leads, and this is its answer."""
    reason: str = ""
    """Why it was not changed; empty when it was."""


LOG_MESSAGES = (
    LogAsk, LogTold, LogFound, LogFeed, LogFed, LogLed, LogFetch, LogEntries, LogRead, LogPage, LogSettle, LogSettled,
)  # fmt: skip


class LogPort(Protocol):
    """What a log asks of the broker that hosts it."""

    def write(self, effect: Effect) -> None:
        """Change a store, before anything that this step sends leaves the broker."""

    def send(self, broker: str, message: ProtocolMessage) -> None:
        """Say something to another broker. It may be lost, with everything that was said to it before."""

    def do(self, effect: Effect) -> None:
        """Set a timer, read a store, or note something."""

    def token(self) -> int:
        """Return a number for a read of a store that no other read of this broker has."""


def broker_of(identity: str) -> str:
    """The broker that a replica with this identity runs at."""
    return identity.rpartition(IDENTITY)[0]


def identity_of(broker: str, life: int) -> str:
    """The identity of a replica that begins with an empty disk in this life of the broker."""
    return f"{broker}{IDENTITY}{life}"


def feeding_broker(feed: str) -> str:
    """The broker that a feed comes from: `b1` of `b1.4.2.1`, which is its life, the consumer in it, and a run."""
    return feed.rsplit(IDENTITY, 3)[0]


def group_of(log: str, identity: str) -> str:
    """The group in the messages and timers of one replica: it names the log and the speaker."""
    return f"{log}{GROUP}{identity}"


def speaker_of(group: str) -> tuple[str, str]:
    """The log and the identity of the speaker."""
    log, _, identity = group.partition(GROUP)
    return log, identity
