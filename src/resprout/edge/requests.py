"""What an application may ask of a client machine (bodies of `Request`), and what it is told (bodies of `Answer`)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from resprout.core.contract import EndCode
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.limits import COMPACT_BYTES, COMPACT_GRACE_US, AttributeValue
from resprout.core.message import Message
from resprout.edge.durable_messages import Settlement, Span, Standing
from resprout.edge.messages import EventGap, EventRead
from resprout.edge.position_messages import LogChange
from resprout.journal.interface import Flush
from resprout.values.rows import KnownValue


class PublishRequest(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes
    guarantee: Guarantee = Guarantee.CAUSAL
    keys: tuple[str, ...] = ()
    attributes: Mapping[str, AttributeValue] = {}
    delay_us: int = 0
    """Of an `eventual` publication: it is delivered so long after it was made, and not before. Whoever runs an
    application of a scenario turns this and the next one into attributes (`core.timing`)."""
    ttl_us: int = 0
    """It expires so long after it was made; 0: never."""


class SubscribeRequest(msgspec.Struct, frozen=True):
    filter: str
    where: str | None = None
    retained: bool = False
    """Whether it begins with the last values of its topics."""

    @property
    def plain(self) -> "SubscribeRequest":
        """The filter and condition alone, by which a client knows its subscriptions."""
        return SubscribeRequest(self.filter, self.where) if self.retained else self


class UnsubscribeRequest(msgspec.Struct, frozen=True):
    """Ends the subscription that was made with the same filter and condition."""

    filter: str
    where: str | None = None


class TakeRequest(msgspec.Struct, frozen=True):
    """The application has so many more deliveries; only for a machine that does not take them by itself."""

    deliveries: int


DRAIN_US: Final = 30_000_000
"""How long a broker that is to leave may look for a good moment, where nobody says otherwise."""


class LeaveRequest(msgspec.Struct, frozen=True):
    """End in good order: of a client, its session; of a broker, its life."""

    within_us: int = 0
    """Of a broker: so long it may take to hand over what it has."""


class LookForRequest(msgspec.Struct, frozen=True):
    """To a broker that looks for its network: these may know it. The driver knows where they listen."""

    names: tuple[str, ...]


class ForgetRequest(msgspec.Struct, frozen=True):
    """Brokers that the network waits for never return. Answered by `ForgetAnswered` under the same token."""

    names: tuple[str, ...]
    force: bool = False
    """Even those that are heard: what hangs may look alive."""


class ReadRequest(msgspec.Struct, frozen=True):
    """What the broker keeps of the past. Answered by `EventsAnswered` under the same token."""

    filter: str
    where: str | None = None
    journal: str = ""
    """The one that the position belongs to; empty: any."""
    position: int = 0
    """From here on; -1: from a time on; -2: what comes next."""
    time_us: int = 0
    size: int = 256 << 10
    also: tuple[str, ...] = ()
    """Other filters: what matches any of them is read, too."""
    until: int = 0
    """Nothing from this position on; 0: no bound."""
    whole: bool = False
    """Nothing is read unless everything on these topics is kept."""
    allow_gaps: bool = False
    """Read across gaps; `EventsAnswered.gaps` names them."""
    waits: bool = False
    """Whether an answer at the end of a log may wait some heartbeats for more messages."""


class AcknowledgeRequest(msgspec.Struct, frozen=True):
    """Of a consumer: these are processed."""

    messages: tuple[Message, ...]


class FollowUpRequest(msgspec.Struct, frozen=True):
    """Of a consumer: publish this, and count a message as processed, in one step. Answered by `FollowUpAnswered`."""

    message: Message
    topic: str
    payload: bytes
    keys: tuple[str, ...] = ()
    attributes: Mapping[str, AttributeValue] = {}


class FollowUpAnswered(msgspec.Struct, frozen=True):
    """The message is processed, and its follow-up is published and safe; or, with a reason, neither."""

    message: Message
    reason: str = ""


class SettleRequest(msgspec.Struct, frozen=True):
    """Of a consumer: what becomes of messages that it does not acknowledge (`edge.durable_messages.Settle`)."""

    settlement: Settlement
    messages: tuple[Message, ...]
    delay_us: int = 0
    reason: str = ""


class ReplayedRequest(msgspec.Struct, frozen=True):
    """Of a consumer: what the subscription was to begin with is processed."""


class EndRequest(msgspec.Struct, frozen=True):
    """Of a consumer: the durable subscription is over, for everybody. Answered by `ConsumerOver`."""


class AudienceRequest(msgspec.Struct, frozen=True):
    """Does anybody listen to one of these topics? Answered by `AudienceAnswered` under the same token."""

    topics: tuple[str, ...]


class PositionRequest(msgspec.Struct, frozen=True):
    """Request to store, delete or read the position of a reader of a log. Answered by `PositionAnswered` with its
    token."""

    log: str
    name: str
    offset: int
    """Offset at which to continue; -1: delete the position; -2: only read it."""
    version: int = 0
    """Version that the application has seen; 0 matches any version, or for a forced change no position."""
    forced: bool = False
    """Whether the position may go back; a forced change increments the version."""
    owner: str = ""
    """Unique name of a forced change."""


class PositionAnswered(msgspec.Struct, frozen=True):
    offset: int
    """Stored offset; -1 if there is none."""
    version: int
    end: int
    """Offset behind the last message of the log."""
    reason: str = ""
    """Reason why the request was refused; empty if it was not."""
    retryable: bool = False
    """Whether the same request may succeed later."""
    partitions: int = 0
    """Number of partitions of the log, if it has several: each of them has a position of this name."""


class ChangeLogRequest(msgspec.Struct, frozen=True):
    """Request to create, move or delete a log. Answered by `LogChangeAnswered` with its token."""

    change: LogChange
    log: str
    filter: str = ""
    replicas: tuple[str, ...] = ()
    retain_bytes: int = 1 << 30
    retain_us: int = 0
    flush: Flush = Flush.ALWAYS
    segment_bytes: int = 16 << 20
    partitions: int = 1
    compact: bool = False
    compact_grace_us: int = COMPACT_GRACE_US
    compact_bytes: int = COMPACT_BYTES


class LogChangeAnswered(msgspec.Struct, frozen=True):
    reason: str = ""
    """Reason why the request was refused; empty if it was not."""


class ValuesRequest(msgspec.Struct, frozen=True):
    """Read the last values of topics that match a filter. Answered by `ValuesAnswered` with its token."""

    filter: str
    after: str = ""
    """Only topics behind this one, in the order of their names."""
    payloads: bool = True


class OutcomeRequest(msgspec.Struct, frozen=True):
    """Ask what became of a write of this client to a bucket. Answered by `OutcomeAnswered` with its token, once the
    write is applied."""

    seq: int


class ValuesAnswered(msgspec.Struct, frozen=True):
    filter: str
    values: tuple[KnownValue, ...]
    place: int
    """The place of the last retained publication that the answer includes."""
    more: bool = False
    """Whether more values match behind these."""
    reason: str = ""
    """Why the request was refused; empty if it was not."""


class OutcomeAnswered(msgspec.Struct, frozen=True):
    seq: int
    place: int
    """The place of the write in the order of totals; -1 if no broker knows any more what became of it."""
    is_applied: bool
    current: int
    """The revision of the key behind the write; 0 if the key does not exist."""


class SubscriptionRestarted(msgspec.Struct, frozen=True):
    """A subscription that begins with last values is asked for again, at another broker: all of them come again."""

    filter: str
    where: str | None


class FlushRequest(msgspec.Struct, frozen=True):
    """Send what was added to `ClientMachine.outgoing`."""


ClientRequest = (
    PublishRequest
    | SubscribeRequest
    | UnsubscribeRequest
    | TakeRequest
    | LeaveRequest
    | ForgetRequest
    | ReadRequest
    | AudienceRequest
    | PositionRequest
    | ChangeLogRequest
    | ValuesRequest
    | OutcomeRequest
    | FlushRequest
)


class AudienceAnswered(msgspec.Struct, frozen=True):
    anybody: bool
    """False when nobody does, for certain."""


class Published(msgspec.Struct, frozen=True):
    """The publication has its number; its receipts come later."""

    stream: str
    seq: int


class SubscriptionConfirmed(msgspec.Struct, frozen=True):
    filter: str
    where: str | None


class SubscriptionEnded(msgspec.Struct, frozen=True):
    filter: str
    where: str | None


class ReceiptTurned(msgspec.Struct, frozen=True):
    """Every publication of the stream from `first` to `last` has reached this receipt just now."""

    stream: str
    receipt: ReceiptLevel
    first: int
    last: int


class CopiesCounted(msgspec.Struct, frozen=True):
    """From this publication on, `safe` rests on so many brokers: fewer than f + 1 where the tree has no more."""

    stream: str
    first: int
    copies: int


class ReceiptWaits(msgspec.Struct, frozen=True):
    """The publication, and what follows it, waits for long. Over when a receipt of it turns."""

    stream: str
    seq: int
    reason: str
    """For people: "waits for b3, which is not heard"."""


class PublishingHeld(msgspec.Struct, frozen=True):
    """The broker takes no more publications for now. They wait at this client, and leave by themselves when it does;
    what was accepted before goes on."""

    reason: str
    """For people: "b1 has no room on its disk: ..."; empty when the broker takes publications again."""


class ForgetAnswered(msgspec.Struct, frozen=True):
    """To a `ForgetRequest`. `reason` is empty when the network was told, otherwise it says why not."""

    names: tuple[str, ...]
    reason: str


class StoredMessage(msgspec.Struct, frozen=True):
    """A message of the past."""

    position: int
    """Offset of the message in a log, or position of its bundle in the journal of one broker."""
    index: int
    """Index of the message in its bundle; 0 in a log."""
    life: int
    """Of that broker. Between two of its lives there may be gaps."""
    time_us: int
    """When it was kept, in microseconds since 1970."""
    message: Message

    @property
    def partition(self) -> int:
        """Partition of the log that keeps it; 0 for a log with one partition."""
        return self.message.partition


class EventsAnswered(msgspec.Struct, frozen=True):
    """To a `ReadRequest`."""

    events: tuple[EventRead, ...] = ()
    """As they came: a reader that wants columns need not make messages of them."""
    journal: str = ""
    following: int = 0
    """The position to go on from."""
    first: int = 0
    """The first position that is kept, and the one behind the last."""
    end: int = 0
    reason: str = ""
    """Why nothing was read; empty when it was."""
    life: int = 0
    """Of the broker that kept the last event that was looked at; 0 when there was none."""
    gaps: tuple[EventGap, ...] = ()
    """The gaps that the answer passes over, or the one for which it was refused."""
    retryable: bool = False
    """Whether nothing was read and the same request may succeed later."""
    begin: int = 0
    """Offset in a log at which the answer begins."""
    partitions: int = 0
    """Number of partitions of the log, if it has several: each of them is asked for its own events."""


class ConsumerBegan(msgspec.Struct, frozen=True):
    """The durable subscription is confirmed, and this one consumes it."""

    replay: str = ""
    """What of the past is to be read first."""
    again: bool = False
    """Another consumer may have begun with that."""


class ConsumerOver(msgspec.Struct, frozen=True):
    """It does not consume any more, or never did."""

    standing: Standing
    reason: str


class DroppedBefore(msgspec.Struct, frozen=True):
    """So many were dropped because too many waited, before what comes next."""

    count: int
    upto: int = 0
    """All messages of the subscription that were dropped so far, these included; 0 if its broker did not drop these."""


class DeliveriesSkipped(msgspec.Struct, frozen=True):
    """These messages will not be delivered: too much waited for this client, and it asked to have the oldest dropped
    (`WhenFull.DROP_OLDEST`); or nobody can read them."""

    spans: tuple[Span, ...]
    reason: str = ""
    """Why, when it is not that too much waited."""

    @property
    def count(self) -> int:
        return sum(span.last - span.first + 1 for span in self.spans)


class DeliveriesExpired(msgspec.Struct, frozen=True):
    """These messages came, and will not be delivered: they have expired (`core.timing`)."""

    spans: tuple[Span, ...]


class Refused(msgspec.Struct, frozen=True):
    """A request was not done. `definite`: it has had no effect and never will."""

    request: ClientRequest | None
    reason: str
    definite: bool
    stream: str = ""
    first: int = 0
    last: int = -1


class SessionBegan(msgspec.Struct, frozen=True):
    """A broker serves this client for the first time and has said what the network offers."""

    stack: str
    guarantees: tuple[Guarantee, ...]
    faults_tolerated: int
    receipts: tuple[ReceiptLevel, ...] = tuple(ReceiptLevel)


class BrokerChanged(msgspec.Struct, frozen=True):
    """Another broker serves this client now; receipts, subscriptions and deliveries go on."""

    name: str


class ConnectionTurned(msgspec.Struct, frozen=True):
    """The connection to the broker broke, or is back. The session stays: what is published meanwhile waits."""

    broker: str
    """The broker that is not reached, or that serves this client now."""
    is_up: bool
    reason: str = ""
    """Why it broke."""


class SessionLost(msgspec.Struct, frozen=True):
    """What only a change of brokers does not bring about: something could not be carried on."""

    reason: str
    over: bool
    """True: the client is done, and what it published without a receipt is uncertain. False: it goes on. Where it had
    subscriptions, they may have missed deliveries, and are asked for again as new ones."""
    code: EndCode = EndCode.NONE
    """As the broker said it: why it is over. A later life of this client, or another client of its name, is served; it
    may not be here; or it did not read fast enough."""

    @property
    def superseded(self) -> bool:
        return self.code is not EndCode.NONE


class RoomAgain(msgspec.Struct, frozen=True):
    """Publications that had to wait for the broker have left: there is room for more."""


ClientNews = (
    SessionBegan
    | BrokerChanged
    | ConnectionTurned
    | SessionLost
    | Published
    | SubscriptionConfirmed
    | SubscriptionEnded
    | ReceiptTurned
    | ReceiptWaits
    | PublishingHeld
    | DeliveriesSkipped
    | DeliveriesExpired
    | ForgetAnswered
    | EventsAnswered
    | PositionAnswered
    | LogChangeAnswered
    | ValuesAnswered
    | OutcomeAnswered
    | SubscriptionRestarted
    | Refused
    | RoomAgain
)
