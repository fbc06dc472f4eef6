"""Errors that the client raises, and events that it reports to `resprout.connect(..., on_event=...)`.

An error says whether a retry can help. `gap_text` describes a gap in a journal of events.
"""

import enum
import logging
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from resprout.core.errors import ResproutError, logger
from resprout.core.message import Message, MessageId
from resprout.edge.messages import EventGap
from resprout.edge.requests import BrokerChanged, PublishingHeld

TellGap = Callable[[str, EventGap], None]
"""Told the journal, and what is missing there."""


class ConnectionState(enum.StrEnum):
    """How a client is connected; `Client.state`."""

    CONNECTING = "connecting"
    """No broker has served the client yet."""
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    """The connection broke. The session stays, publications wait, and the client looks for a broker by itself."""
    CLOSED = "closed"
    """The client was closed, or its session is over for good."""


class Connected(msgspec.Struct, frozen=True):
    """The client is connected for the first time."""

    broker: str


class Disconnected(msgspec.Struct, frozen=True):
    """The connection to the broker broke. The client connects again by itself, unless `is_final`."""

    broker: str
    reason: str
    is_final: bool = False
    """The session is over for good: the program has to connect again."""


class Reconnected(msgspec.Struct, frozen=True):
    """The client is connected again after `Disconnected`. If another broker serves it, `BrokerChanged` came first."""

    broker: str


class DeliveriesMissing(msgspec.Struct, frozen=True):
    """Messages that this client missed cannot be recovered. Inboxes of confirmed subscriptions end: subscribe again.
    Everything else continues."""

    reason: str


class PublicationDelayed(msgspec.Struct, frozen=True):
    """A publication, and those after it, wait for long; sent again when the reason changes."""

    id: MessageId
    """Id of the publication, as in its receipt."""
    reason: str
    """Text for people: "waits for b3, which is not heard", or "waits for subscriber log-1 at b2, which has too much
    unread of data/#"."""


class SlowConsumer(msgspec.Struct, frozen=True):
    """The broker ended the session of this client, because it did not read fast enough. Its inboxes raise
    `SlowConsumerError` after the messages that had arrived."""

    reason: str


class MessagesDropped(msgspec.Struct, frozen=True):
    """The broker dropped messages of a slow subscription (`when_full="drop_oldest"`), or messages are unreadable."""

    subscription: str
    """The name of a durable subscription; empty for others."""
    count: int
    """Dropped messages, the oldest ones, since the last such event."""
    reason: str = ""
    """Empty for a slow subscription; otherwise why messages are unreadable."""


class EventsMissing(msgspec.Struct, frozen=True):
    """A replay skipped a gap (`allow_gaps`), where the broker was down or its disk full."""

    filter: str
    gap: EventGap
    reason: str
    """Text for people: which events are missing, and why."""


ClientEvent = (
    BrokerChanged
    | Connected
    | DeliveriesMissing
    | Disconnected
    | EventsMissing
    | MessagesDropped
    | PublicationDelayed
    | PublishingHeld
    | Reconnected
    | SlowConsumer
)

OnEvent = Callable[[ClientEvent], object]


def log_event(client: str, event: ClientEvent, is_told: bool) -> None:
    """Write one line to the logger `resprout`: connections as they change, and a warning for each event that means loss
    or delay, unless the program is told of it (`is_told`)."""
    match event:
        case Disconnected():
            level = logging.WARNING if event.is_final else logging.INFO
            logger.log(level, "%s: disconnected from %s: %s", client, event.broker, event.reason)
        case Connected():
            logger.info("%s: connected to %s", client, event.broker)
        case Reconnected():
            logger.info("%s: connected again, to %s", client, event.broker)
        case BrokerChanged():
            logger.info("%s: %s serves this client now", client, event.name)
        case PublicationDelayed():
            pass  # the receipts have logged it
        case MessagesDropped():
            reason = event.reason or "this client did not read fast enough"
            _log(is_told, "%s: %d messages were dropped: %s", client, event.count, reason)
        case PublishingHeld(reason=""):
            logger.info("%s: the broker takes publications again", client)
        case _:
            _log(is_told, "%s: %s: %s", client, type(event).__name__, event.reason)


def _log(is_told: bool, text: str, *arguments: object) -> None:
    logger.log(logging.INFO if is_told else logging.WARNING, text, *arguments)


def gap_text(journal: str, gap: EventGap) -> str:
    """Say in one sentence which events are missing: positions, times and cause."""
    end = f"position {gap.following}{_at(gap.until_us)}"
    where = f"between position {gap.position - 1}{_at(gap.from_us)} and {end}" if gap.position else f"before {end}"
    return f"events {where} are missing in {journal}: {gap.reason}"


def _at(time_us: int) -> str:
    if not time_us:
        return ""
    try:
        time = datetime.fromtimestamp(time_us / 1_000_000, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):  # what a broker says need not be a time
        return ""
    return f" ({time.isoformat(timespec='milliseconds')}Z)"


class ClientError(ResproutError):
    """Base class of every error of a client that is no UsageError."""


class ConnectError(ClientError, ConnectionError):
    """The client could not open a session with a broker.

    `retryable`: trying again may help. It is false when the host is no name at all, or when the peer at the address is
    no broker of this kind.
    """

    def __init__(self, reason: str, retryable: bool = True) -> None:
        super().__init__(reason)
        self.retryable = retryable


class TimedOutError(ClientError, TimeoutError):
    """A call did not finish within its `timeout`. Nothing is lost: what was awaited can be awaited again."""


class ClosedError(ClientError):
    """The client is closed, or its session with the network is over for good."""


class SlowConsumerError(ClosedError):
    """The broker ended the session: this client did not read what it subscribed to, and its share was full. The text
    has the numbers. `when_full` of `subscribe` chooses another policy."""


class PublishError(ClientError):
    """A publication did not reach the receipt that was waited for.

    `definite`: it has not been delivered to any subscriber and never will be. Otherwise it may still be delivered.
    """

    def __init__(self, reason: str, definite: bool) -> None:
        super().__init__(f"{reason} ({'it will not be delivered' if definite else 'it may still be delivered'})")
        self.reason = reason
        self.definite = definite


class SubscribeError(ClientError):
    """The network refused a subscription."""


class DifferentSubscriptionError(SubscribeError):
    """A durable subscription of this name exists with other terms."""


class MessagesMissingError(SubscribeError):
    """Messages of a durable subscription were lost with the brokers that stored them. Subscribe again to continue with
    new messages."""


class FencedError(ClosedError):
    """Another consumer took over the durable subscription, with the messages that this one did not acknowledge."""


class ForkedError(ClosedError):
    """The client was made before a fork and is used in the child, which has neither its thread nor its connection."""


class NoRespondersError(ClientError):
    """No client has a confirmed subscription to the topic of a request; nothing was published."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"no client subscribes to {topic}")
        self.topic = topic


class NoReplyError(TimedOutError):
    """No reply came in time. The request may have been served all the same."""


class RequestFailedError(ClientError):
    """The service reported that the request failed; the text comes from the service."""


class MistypedPayloadError(ClientError, ValueError):
    """The payload of `message` does not decode to the type of its subscription."""

    def __init__(self, message: Message, reason: str) -> None:
        super().__init__(f"{message.topic}: {reason}")
        self.message = message
        self.reason = reason


class ForgetError(ClientError):
    """The broker refused to forget brokers, or did not answer; the text says why."""


class ReadError(ClientError):
    """No stored events were read; the text says why."""


class CommitError(ClientError):
    """A position in a log was not stored, or cannot be read; the text has the reason."""


class LogError(ClientError):
    """A log was not created, moved or deleted; the text says why."""


class KvError(ClientError):
    """A key of a bucket was not written or read; the text says why."""


class RevisionError(KvError):
    """A key has another revision than the write expected, so nothing was written."""

    def __init__(self, bucket: str, key: str, expected: int, current: int) -> None:
        has = f"has revision {current}" if current else "does not exist"
        wanted = f"not revision {expected}" if expected else "and was to be created"
        super().__init__(f"key {key!r} of bucket {bucket} {has}, {wanted}")
        self.key = key
        self.expected = expected
        """The revision that the write expected; 0: the key was not to exist."""
        self.current = current
        """The revision of the key; 0 if it does not exist."""


class OutcomeUnknownError(KvError):
    """The write of a key may have been applied: brokers remember what became of a client's last writes only."""


class GapError(ReadError):
    """Stored events are missing; `gap` says which. All events before the gap were handed out.

    Read with `allow_gaps=True` to continue without them, or begin at `Offset(journal, gap.following)`, behind the gap.
    """

    def __init__(self, journal: str, gap: EventGap) -> None:
        super().__init__(
            f"{gap_text(journal, gap)}; allow_gaps=True (--allow-gaps) goes on without them,"
            f" {journal}@{gap.following} begins behind them"
        )
        self.journal = journal
        self.gap = gap
