"""What brokers say to each other about logs, beside what the replicas of `replicas` say. Tags 312 to 319.

Any of these may be lost with a session. Nothing rests on an answer: whoever needs one asks again.
"""

from typing import Annotated, Final

import msgspec

from resprout.core.contract import BrokerMessage
from resprout.core.message_fields import BoundedNumber

FETCH_BYTES: Final = 256 << 10
"""Of entries in one answer, unless a single one is larger."""
IDENTITY: Final = "."
"""Between the broker and the life in the identity of a replica: an identity is a name, as the wire knows them."""
GROUP: Final = "|"
"""Between the log and the identity of the speaker in the group of a replica's messages."""


class LogAsk(BrokerMessage, frozen=True, tag=312):
    """By a replica that is no member: who is a member of this log? Answered by `LogTold`, or by `LogFound`."""

    log: str
    identity: str
    end: BoundedNumber
    """It has every entry before this offset."""

    @property
    def background(self) -> bool:
        return True


class LogTold(BrokerMessage, frozen=True, tag=313):
    """Answer to `LogAsk`: the identity of this replica, the members if it knows them, and the entries that it has."""

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
    number: BoundedNumber
    command: bytes

    @property
    def bulk(self) -> int:
        return len(self.command)


class LogFed(BrokerMessage, frozen=True, tag=316):
    """From the leader: a majority has every command of this feed up to a number."""

    log: str
    feed: str
    upto: BoundedNumber
    expected: BoundedNumber = 0
    """The number that the leader needs next, where a command is missing; 0: none is."""


class LogLed(BrokerMessage, frozen=True, tag=317):
    """To a feeder: this broker leads the log; empty when that is not known."""

    log: str
    leader: str


class LogFetch(BrokerMessage, frozen=True, tag=318):
    """The entries from this offset on, please. Answered by `LogEntries`."""

    log: str
    offset: BoundedNumber
    size: Annotated[int, msgspec.Meta(ge=1, le=FETCH_BYTES)]


class LogEntries(BrokerMessage, frozen=True, tag=319):
    """Answer to `LogFetch`: records from this offset on, and which offsets the replica has."""

    log: str
    offset: BoundedNumber
    records: tuple[bytes, ...]
    first: BoundedNumber
    end: BoundedNumber

    @property
    def bulk(self) -> int:
        return sum(len(record) for record in self.records)


LOG_MESSAGES = (LogAsk, LogTold, LogFound, LogFeed, LogFed, LogLed, LogFetch, LogEntries)


def broker_of(identity: str) -> str:
    """The broker that a replica with this identity runs at."""
    return identity.rpartition(IDENTITY)[0]


def identity_of(broker: str, life: int) -> str:
    """The identity of a replica that begins with an empty disk in this life of the broker."""
    return f"{broker}{IDENTITY}{life}"


def group_of(log: str, identity: str) -> str:
    """The group in the messages and timers of one replica: it names the log and the speaker."""
    return f"{log}{GROUP}{identity}"


def speaker_of(group: str) -> tuple[str, str]:
    """The log and the identity of the speaker."""
    log, _, identity = group.partition(GROUP)
    return log, identity
