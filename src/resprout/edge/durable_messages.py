"""Messages between a consumer of a durable subscription and the broker that holds it. Tags 25 to 29, 46, 47, 327 and
328.

A consumer has a session of its own, in which it says nothing else. What it was given is acknowledged by what it is (who
published it, in which stream, under which number) and not by when it was given: so an acknowledgement means the same to
whichever broker holds the subscription by then.
"""

import enum
from typing import Annotated, ClassVar, Final

import msgspec

from resprout.core.bundle import Bundle, Origin
from resprout.core.contract import ClientMessage, ProtocolMessage, Sender, Timer
from resprout.core.message_fields import (
    MARK_BYTES,
    NUMBER_MAX,
    BoundedNumber,
    BundleMessage,
    Derived,
    FreeBundleMessage,
    Hops,
    Marks,
    Microseconds,
    Offsets,
    Otherwise,
    TotalSequence,
)
from resprout.core.message_ids import ID_BYTES, PUBLICATION_BYTES

SPANS_MAX: Final = 16_384
"""In one message."""
IDS_MAX: Final = 40_000
"""Ids of one durable subscription that are remembered, and told in one message."""
ID_ENTRY_BYTES: Final = ID_BYTES + PUBLICATION_BYTES


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Publications of one origin, from the first to the last."""

    publisher: str
    stream: str
    incarnation: BoundedNumber
    first: BoundedNumber
    last: BoundedNumber

    @property
    def origin(self) -> Origin:
        return (self.publisher, self.stream, self.incarnation)


Spans = tuple[Span, ...]

HANDED_OUT: Final = Derived("messages that the broker of the subscription has handed out", Otherwise.IGNORED)

FOLLOW_UPS_MAX: Final = 64
"""Follow-ups of one consumer that were not answered. It keeps others until then."""
FOLLOW_UP_BYTES: Final = 1 << 20
"""Their bytes, and one more."""

SPAN_BYTES: Final = MARK_BYTES + 9
"""At most what a span takes in a frame: a mark, and one more number."""


class Tries(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Publications of one origin that were handed out so many `times`, and never acknowledged."""

    publisher: str
    stream: str
    incarnation: BoundedNumber
    first: BoundedNumber
    last: BoundedNumber
    times: BoundedNumber

    @property
    def origin(self) -> Origin:
        return (self.publisher, self.stream, self.incarnation)


class IdBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Ids of messages that a durable subscription was given first at the same time (`edge.broker.known_ids`)."""

    at_s: BoundedNumber
    """Seconds since 1970."""
    ids: Annotated[bytes, msgspec.Meta(max_length=ID_ENTRY_BYTES * IDS_MAX)]
    """A digest of topic and id, and one of the publication, for each of them."""


IdBatches = Annotated[tuple[IdBatch, ...], msgspec.Meta(max_length=IDS_MAX)]


class RetryTerms(msgspec.Struct, frozen=True, array_like=True):
    """When a durable subscription hands out again what was not acknowledged, and when it gives up."""

    topic: str
    """Topic of its dead letters: messages that it gave up."""
    max_deliver: BoundedNumber = 0
    """A message that was handed out so often without an acknowledgement becomes a dead letter; 0: never."""
    ack_wait_us: Microseconds = 0
    """A message that is not acknowledged within this time is handed out again; 0: no limit."""


class WhenFull(enum.IntEnum):
    """What happens when a subscriber does not read fast enough, or not at all."""

    BLOCK = 0
    """Keep everything, and hold back publishers of its topics once its share is full ("block")."""
    DROP_OLDEST = 1
    """Drop the oldest messages, and tell how many: what waits beyond its share of bytes, and of a durable subscription
    more than `max_pending` messages."""
    SPILL = 2
    """Durable only: keep everything, on disk where it is too much. Hold back publishers of its topics once the disk is
    full."""
    DISCONNECT = 3
    """Plain only: end the session of a subscriber whose share is full and that takes too little."""


class Standing(enum.IntEnum):
    """What a consumer is to a durable subscription."""

    CONSUMER = 0
    """It is given messages from now on."""
    REFUSED = 1
    """It is none, and the reason says why."""
    FENCED = 2
    """Another one took over."""
    ENDED = 3
    """There is no such subscription any more."""
    INCOMPLETE = 4
    """Messages may be missing, and nobody can make them good: whoever asks again goes on from here."""
    DIFFERENT = 5
    """It is none, because what it asks for is not what has this name."""
    UNSUPPORTED = 6
    """It is none, because the broker does not offer what it asks for."""


class Terms(msgspec.Struct, frozen=True, array_like=True):
    """What a durable subscription is: two with the same terms are the same."""

    filter: str
    where: str | None
    group: bool
    """Several consumers share it; otherwise the latest one has it alone."""
    when_full: WhenFull = WhenFull.BLOCK
    max_pending: BoundedNumber = 0
    """Messages that may wait, where the oldest are dropped."""
    retry: RetryTerms | None = None
    """None: a message is handed out again only when its consumer is gone, and as often as it takes."""


class Drops(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a durable subscription that were dropped because too many waited, counted since it began."""

    messages: BoundedNumber = 0
    told: BoundedNumber = 0
    """Of these, how many consumers were told of, and acknowledged a message that came with the notice."""

    def joined(self, other: "Drops") -> "Drops":
        """Return the further of both."""
        return Drops(max(self.messages, other.messages), max(self.told, other.told))


NO_DROPS: Final = Drops()


# consumer to broker


class DurableAction(enum.IntEnum):
    """What whoever sends `Consume` wants of the subscription."""

    CONSUME = 0
    PEEK = 1
    """To be shown the next messages, without having them. Their number is the window."""
    PURGE = 2
    """To drop all messages that wait."""


class Consume(ClientMessage, frozen=True, tag=25):
    """First message of a session: give me what this subscription is given. Answered by `Serving` and `Consuming`, or by
    `GoTo`: another broker holds it."""

    subscription: str
    terms: Terms
    window: Annotated[
        int,
        msgspec.Meta(ge=1, le=NUMBER_MAX),
        Derived("65,536 messages, and 131,072 of all consumers of an identity (`consumers.py`)", Otherwise.LIMITED),
    ]
    """Messages that it may be given before it has acknowledged any."""
    turn: Annotated[
        BoundedNumber,
        Derived("2^20 above the latest turn, where consumers do not share", Otherwise.REFUSED),
    ] = 0
    """As it was told (`Consuming`); 0 for one that is new."""
    done: Annotated[tuple[Span, ...], HANDED_OUT] = ()
    """What it has acknowledged that may not be known everywhere."""
    has: Annotated[tuple[Span, ...], HANDED_OUT] = ()
    """What it was given and has not acknowledged."""
    ends: bool = False
    """An operator says that the subscription is over, for everybody, whatever its terms."""
    replay: str = ""
    """Where in the past a subscription begins that is not there yet; empty: it does not. The consumer reads it itself,
    and says when it has (`Replayed`); until then everybody who consumes is told to."""
    dropped_upto: BoundedNumber = 0
    """The latest count of dropped messages that it was told (`DropsTold.upto`)."""
    dropped_term: BoundedNumber = 0
    """Which broker of the subscription had counted them (`DropsTold.term`)."""
    action: DurableAction = DurableAction.CONSUME
    """All but `CONSUME` are for a subscription that is there, whatever its terms, and end the session."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * (len(self.done) + len(self.has)) + 8 * len(self.terms.filter)


class Acknowledge(ClientMessage, frozen=True, tag=26):
    """These are processed, and are given to nobody any more."""

    spans: Annotated[tuple[Span, ...], HANDED_OUT]
    dropped_upto: BoundedNumber = 0
    """The latest count of dropped messages that it was told (`DropsTold.upto`)."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.spans)


class Settlement(enum.IntEnum):
    """What a consumer says of messages that it has and does not acknowledge."""

    NACK = 0
    """Hand them out again, after a delay if there is one."""
    TERM = 1
    """Hand them out to nobody: they become dead letters."""
    IN_PROGRESS = 2
    """The consumer works on them: `ack_wait` begins anew."""


class Settle(ClientMessage, frozen=True, tag=327):
    """What becomes of messages that the consumer has. Only for subscriptions with a `RetryTerms`."""

    settlement: Settlement
    spans: Annotated[tuple[Span, ...], HANDED_OUT]
    delay_us: Microseconds = 0
    """Of a `NACK`."""
    reason: str = ""
    """Of a `TERM`, for people."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.spans) + len(self.reason)


class FollowUp(FreeBundleMessage, frozen=True, tag=332):
    """Publish this, and count a message that the consumer has as done, in one step. Answered by `FollowedUp`. Free,
    because a consumer waits for answers (`FOLLOW_UPS_MAX`, `FOLLOW_UP_BYTES`)."""

    said_by: ClassVar[Sender] = Sender.CLIENT
    span: Annotated[Span, HANDED_OUT]
    """The message, one."""
    bundle: Bundle
    """One `eventual` message. The broker puts an origin, a number and a stamp of its own in place of those here."""


class Replayed(ClientMessage, frozen=True, tag=29):
    """What the subscription was to begin with is processed."""


class EndSubscription(ClientMessage, frozen=True, tag=27):
    """The subscription is over, for everybody. Answered by `Consuming`."""


# broker to consumer


class Consuming(ProtocolMessage, frozen=True, tag=46):
    """What the consumer is to the subscription from now on."""

    standing: Standing
    reason: str = ""
    turn: BoundedNumber = 0
    """Of consumers that do not share: whoever has a later one fences it off."""
    replay: str = ""
    """What of the past is to be read first."""


class Handed(BundleMessage, frozen=True, tag=47):
    """Messages to be processed, and acknowledged."""

    bundle: Bundle
    hops: Hops
    metadata_bytes: BoundedNumber
    offsets: Offsets | None
    """Where it is not all of a bundle: the places of these messages in it."""
    tseq: TotalSequence
    """As in `Delivery`."""
    redelivered: bool
    """Somebody may have been given it before."""
    deliveries: BoundedNumber = 1
    """How often these were handed out, as far as the broker knows, this time included."""


class FollowedUp(ProtocolMessage, frozen=True, tag=333):
    """The message is done, and its follow-up is published and safe: this consumer's, or an earlier one."""

    span: Span
    reason: str = ""
    """Why nothing was published, and the message is not done; empty: it is."""

    @property
    def bulk(self) -> int:
        return SPAN_BYTES + len(self.reason)


class DropsTold(ProtocolMessage, frozen=True, tag=20):
    """More messages were dropped, because too many waited. The next `Acknowledge` says that the consumer has heard it;
    if the consumer goes before that, the next one is told."""

    messages: BoundedNumber
    """Since consumers were told last."""
    upto: BoundedNumber
    """All messages of the subscription that were dropped so far (`Drops.messages`), these included."""
    term: BoundedNumber
    """How many brokers have held the subscription, this one included: each goes on with the count that it knows."""


class TakenBack(ProtocolMessage, frozen=True, tag=328):
    """The consumer has not acknowledged these in time (`RetryTerms.ack_wait_us`): they are handed out again. Its
    acknowledgement still counts."""

    spans: Spans

    @property
    def bulk(self) -> int:
        return SPAN_BYTES * len(self.spans)


class Acknowledged(ProtocolMessage, frozen=True, tag=28):
    """Everything up to these is done, and known to be where it must: nobody need say so again."""

    marks: Marks
    known: bool = True
    """False: it may not be known yet, so whoever hears it says so to the next broker, as if it had done it."""
    spans: Spans = ()
    """Done beyond those. Told only where it may not be known."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.marks) + SPAN_BYTES * len(self.spans)

    @property
    def background(self) -> bool:
        return True


DURABLE_MESSAGES = (
    Consume, Acknowledge, Settle, Replayed, EndSubscription, Consuming, Handed, DropsTold, TakenBack, Acknowledged,
    FollowUp, FollowedUp,
)  # fmt: skip


class RetryDue(Timer, frozen=True):
    """When to look at a durable subscription again: a message was not acknowledged in time, or its delay is over."""

    subscription: str


class DurableDue(Timer, frozen=True):
    """When to look at a durable subscription again: the consumers of the broker that held it before have had time to
    return, or consumers are to be told of dropped messages."""

    subscription: str
