"""Messages between a client and its broker. Tags 16..47, 308, 320, 327 and 328 of the wire belong to this file and to
`durable_messages`."""

import enum
from typing import Annotated, ClassVar, Final

import msgspec

from resprout.core import limits
from resprout.core.bundle import Bundle
from resprout.core.contract import ClientMessage, ProtocolMessage, Sender
from resprout.core.guarantee import ALL_LEVELS, Guarantee, ReceiptLevel
from resprout.core.message_fields import (
    CLIENT_STAMPED,
    MARK_BYTES,
    NUMBER_MAX,
    BoundedNumber,
    BundleMessage,
    ClientStamp,
    Derived,
    FreeBundleMessage,
    Hops,
    Marks,
    Microseconds,
    Offsets,
    Otherwise,
    SeveralPartitions,
    TotalSequence,
)
from resprout.edge.durable_messages import DURABLE_MESSAGES, Span, WhenFull
from resprout.edge.position_messages import POSITION_MESSAGES
from resprout.edge.value_messages import VALUE_MESSAGES

_DELIVERED: Final = ReceiptLevel.DELIVERED.bit
OWN_LIFE: Final = Derived("the life of the client in this session", Otherwise.CUT_OFF, "incarnation")
TRIED_MAX: Final = 64
"""Brokers that a client names in `Attend`."""
RECEIVED_MARKS_MAX: Final = 32_768
"""Marks of what a client has received, in `Attend`. A client leaves out the oldest."""
BASE_MARKS_MAX: Final = 65_536
"""Marks in all bases of the subscriptions that a client brings along."""
HELD_SUBSCRIPTIONS_MAX: Final = 100_000
SAFE_MARKS_MAX: Final = 16
"""Streams in `Attend.safe`; a client has one for each kind of order."""
NAMES_FORGOTTEN_MAX: Final = 4_096
"""Of one `ForgetBrokers`."""
NEXT_NUMBER: Final = Derived(
    "the next number of the stream; any, of a client that was elsewhere before", Otherwise.CUT_OFF, "first"
)

# client to broker


class Successor(msgspec.Struct, frozen=True, array_like=True):
    """A broker that a client can turn to."""

    name: str
    address: str = ""
    """Empty where names are enough to connect."""


TOPIC_PLACES_MAX: Final = 2_000
"""Topics whose positions one message tells."""


class HeldSubscription(msgspec.Struct, frozen=True, array_like=True):
    """A confirmed subscription that a client brings along."""

    id: BoundedNumber
    filter: str
    where: str | None
    base: Marks
    """How far origins had come when it was confirmed; see `Subscribed`."""


class StreamMark(msgspec.Struct, frozen=True, array_like=True):
    """How far a stream of the client's own publications has come."""

    stream: str
    last: BoundedNumber


class TopicPlace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a client has come on a topic that has an order of its own: by the position of a publication there."""

    topic: str
    position: BoundedNumber


class Attend(ClientMessage, frozen=True, tag=22):
    """The first message of a client in every session: which brokers it tried, what it received, and what it is
    subscribed to."""

    clock: ClientStamp
    tried: Annotated[tuple[str, ...], msgspec.Meta(max_length=TRIED_MAX)] = ()
    """The broker that served it last, then those that it asked since and that did not serve it; empty for a new
    client."""
    received: Annotated[Marks, msgspec.Meta(max_length=RECEIVED_MARKS_MAX)] = ()
    subscriptions: Annotated[tuple[HeldSubscription, ...], msgspec.Meta(max_length=HELD_SUBSCRIPTIONS_MAX)] = ()
    anyhow: bool = False
    """Whether to serve it even if nobody can make good what it missed: it was sent on too often."""
    home: BoundedNumber = 0
    """The incarnation of the broker that served it last: another life of that name owes it nothing."""
    safe: Annotated[tuple[StreamMark, ...], msgspec.Meta(max_length=SAFE_MARKS_MAX)] = ()
    """By stream: up to which number it was told `safe`, where `delivered` is outstanding. The new broker need not
    have seen these publications."""
    when_full: WhenFull = WhenFull.DISCONNECT
    """As in `Subscribe`, for the subscriptions that it brings along."""
    places: Annotated[tuple[TopicPlace, ...], msgspec.Meta(max_length=TOPIC_PLACES_MAX)] = ()
    """Where brokers tell positions (`PlacedDelivery`): how far it has come on each topic. None at all when there are
    more than fit."""
    unsettled: bool = False
    """Whether the broker that served it last may not have known when its publications are delivered: some were made
    elsewhere, or by an earlier process, and not all of those are delivered."""

    @property
    def bulk(self) -> int:
        marks = len(self.received) + sum(len(held.base) for held in self.subscriptions)
        texts = sum(4 * len(held.filter) + 4 * len(held.where or "") for held in self.subscriptions)
        return MARK_BYTES * marks + texts + sum(16 + 4 * len(place.topic) for place in self.places)


class Publish(BundleMessage, frozen=True, tag=16):
    """A bundle that the client publishes."""

    said_by: ClassVar[Sender] = Sender.CLIENT
    bundle: Annotated[Bundle, OWN_LIFE, NEXT_NUMBER, CLIENT_STAMPED]
    awaits: Annotated[int, msgspec.Meta(ge=0, le=ALL_LEVELS)] = ALL_LEVELS
    """The receipts that somebody waits for (`ReceiptLevel.bit`): the broker sends these at once, and batches the
    others."""

    @property
    def prompt(self) -> bool:
        """Whether somebody waits for any receipt."""
        return self.awaits != 0

    @property
    def awaits_all(self) -> bool:
        """Whether somebody waits for `delivered`, which needs reports of every hop."""
        return self.awaits & _DELIVERED != 0


class Subscribe(ClientMessage, frozen=True, tag=17):
    """Asks for a subscription."""

    id: BoundedNumber
    """Chosen by the client, unique within its incarnation."""
    filter: str
    where: str | None
    when_full: WhenFull = WhenFull.DISCONNECT
    """What the broker does when this client does not read fast enough. All subscriptions of a session share it; the
    last one decides."""
    retained: bool = False
    """Whether it begins with the last values of its topics (`RetainedDelivery`)."""


class Unsubscribe(ClientMessage, frozen=True, tag=18):
    """Ends a subscription."""

    id: BoundedNumber


class Taken(ClientMessage, frozen=True, tag=21):
    """The application has taken all deliveries up to this one, counted from 1 in the session. A client that was
    elsewhere before sends `Taken(0)` at once: it has come, and takes over what was kept for it."""

    deliveries: Annotated[
        BoundedNumber, Derived("deliveries that it was given in this session, and took before", Otherwise.CUT_OFF)
    ]


class DropsAcknowledged(ClientMessage, frozen=True, tag=19):
    """The client has heard the notices of dropped messages (`DeliveriesDropped`) up to this one, counted from 1 in the
    session. Its broker keeps the dropped messages until then: a notice can be lost with the broker."""

    notices: Annotated[BoundedNumber, Derived("notices of this session, and acknowledged before", Otherwise.CUT_OFF)]


class ForgetBrokers(ClientMessage, frozen=True, tag=23):
    """The operator says that these brokers never return: nobody is to wait for them any longer, whatever is heard of
    them later. Every client may say so, unless rules say who is an operator."""

    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=NAMES_FORGOTTEN_MAX)]
    force: bool = False
    """Even those that are heard."""


class ReadEvents(ClientMessage, frozen=True, tag=24):
    """Read what this broker keeps of the past. Answered by `EventRead` any number of times, and `EventsEnd`."""

    id: BoundedNumber
    """Chosen by the client; comes back in the answers."""
    filter: str
    where: str | None
    journal: str
    """The one that the position belongs to; empty: any."""
    position: Annotated[int, msgspec.Meta(ge=-2, le=NUMBER_MAX)]
    """From here on; -1: from a time on; -2: what comes next."""
    time_us: Microseconds
    size: Annotated[BoundedNumber, Derived("256 KiB (`PAGE_BYTES`)", Otherwise.LIMITED)]
    """About so many bytes, no more than the broker gives at once."""
    also: tuple[str, ...] = ()
    """Other filters: what matches any of them is read, too."""
    until: BoundedNumber = 0
    """Nothing from this position on; 0: no bound."""
    whole: bool = False
    """Nothing is read unless everything on these topics is kept."""
    allow_gaps: bool = False
    """Read across gaps, and name them in `EventsEnd`. Otherwise a page ends before a gap, and a page that would begin
    with one is refused."""
    waits: bool = False
    """Whether an answer at the end of a log may wait some heartbeats for more messages."""


# broker to client


TOPICS_MAX: Final = 64
"""Of one `AskAudience`."""


class AskAudience(ClientMessage, frozen=True, tag=30):
    """Asks whether any client subscribes to one of these topics."""

    id: BoundedNumber
    """Chosen by the client, unique within its incarnation."""
    topics: Annotated[tuple[str, ...], msgspec.Meta(max_length=TOPICS_MAX)]


class Extra(enum.IntEnum):
    """What a stack may offer beside publishing and subscribing. What it does not, a client does not ask for."""

    FORGETTING = 1
    """`ForgetBrokers`: it may wait for a broker for ever, and somebody has to tell it not to."""
    READING = 2
    """`ReadEvents`: this broker knows logs, or keeps a journal of events."""
    DURABLE = 3
    """`Consume`: subscriptions that outlive their subscribers."""
    AUDIENCE = 4
    """`AskAudience`: it knows where nobody listens."""
    POSITIONS = 5
    """The broker answers `AskPosition` and `ChangeLog`, because it knows logs."""
    VALUES = 6
    """The broker holds last values: `Subscribe.retained`, and the questions of `value_messages`."""


class Serving(ProtocolMessage, frozen=True, tag=32):
    """Answer to `Attend`: the broker serves this client. States what the network offers, and the successors."""

    stack: str
    guarantees: tuple[Guarantee, ...]
    faults_tolerated: BoundedNumber
    successors: tuple[Successor, ...] = ()
    resumed: bool = True
    """False if what the client missed cannot be made good; its subscriptions are then gone."""
    extras: tuple[Extra, ...] = ()
    receipts: tuple[ReceiptLevel, ...] = tuple(ReceiptLevel)
    """The receipt levels that this network gives."""
    splits: bool = False
    """Brokers split a bundle of which they know a part, and no session or link ends when one is repeated with other
    boundaries. A publisher with an `epoch` sends larger bundles only to such brokers."""
    max_payload: BoundedNumber = limits.PAYLOAD_BYTES
    """Bytes that one payload may have."""


class GoTo(ProtocolMessage, frozen=True, tag=39):
    """Answer to `Attend`: ask another broker. With the name of the sender: this broker cannot make good what the
    client missed, but another one may."""

    successor: Successor


class Successors(ProtocolMessage, frozen=True, tag=40):
    """The successors of this broker have changed."""

    word: ClassVar[str | None] = "Refuges"
    successors: tuple[Successor, ...]


class Subscribed(ProtocolMessage, frozen=True, tag=33):
    """The subscription is confirmed: every later match is delivered."""

    id: BoundedNumber
    base: Marks = ()
    """How far origins had come before every broker knew the subscription: nothing up to there is owed."""
    more: bool = False
    """Whether more of the base follows; the last part confirms."""

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.base)


class SubscribeRefused(ProtocolMessage, frozen=True, tag=34):
    id: BoundedNumber
    reason: str


class Unsubscribed(ProtocolMessage, frozen=True, tag=35):
    """The subscription has ended: nothing of it follows."""

    id: BoundedNumber


class Delivery(BundleMessage, frozen=True, tag=36):
    """A bundle, or the messages of one that a content filter picked, for a subscriber."""

    bundle: Bundle
    hops: Hops
    metadata_bytes: BoundedNumber
    """Ordering bytes that the bundle cost on its last link."""
    offsets: Offsets | None
    """Where a content filter picked some messages: their places in the original bundle."""
    prompt: bool = False
    """Whether the publisher waits for `delivered`: acknowledge it at once."""
    tseq: TotalSequence = -1
    """The place in the total order of the first total of the original bundle; the others follow. -1 for others."""


class RetainedDelivery(Delivery, frozen=True, tag=342):
    """The last value of a topic, for a subscription that begins with it. `Subscribed` follows behind the last one."""

    id: BoundedNumber = 0
    """The subscription."""


class PlacedDelivery(Delivery, frozen=True, tag=310):
    """A delivery in a network in which each topic has an order of its own."""

    position: BoundedNumber = 0
    """In the order of its topic: the client brings the last one of each topic along to its next broker (`Attend`)."""


class TopicsReached(ProtocolMessage, frozen=True, tag=311):
    """Before `Subscribed`, in such a network: what is published on these topics behind these positions is delivered."""

    places: Annotated[tuple[TopicPlace, ...], msgspec.Meta(max_length=TOPIC_PLACES_MAX)]

    @property
    def bulk(self) -> int:
        return sum(16 + 4 * len(place.topic) for place in self.places)


class Turned(ProtocolMessage, frozen=True, tag=37):
    """Every publication of the stream from `first` up to this one has reached this receipt level."""

    stream: str
    receipt: ReceiptLevel
    seq: BoundedNumber
    first: BoundedNumber = 1


class SafeCopies(ProtocolMessage, frozen=True, tag=43):
    """From this publication of the stream on, `safe` rests on this many brokers. In every session it is f + 1 until
    the broker says otherwise."""

    stream: str
    first: BoundedNumber
    copies: BoundedNumber


class PublishRefused(ProtocolMessage, frozen=True, tag=38):
    """These publications will never be delivered."""

    stream: str
    first: BoundedNumber
    count: BoundedNumber
    reason: str


class BrokersForgotten(ProtocolMessage, frozen=True, tag=41):
    """Answer to `ForgetBrokers`, in the order in which they came."""

    names: tuple[str, ...]
    reason: str
    """Why not, and then nothing was done; empty when it was passed on to those who decide."""


class PublicationWaits(ProtocolMessage, frozen=True, tag=42):
    """A publication of this client, and every later one, waits for longer than a broker may be silent. Told again when
    the reason changes; it is over when a receipt of the publication turns."""

    stream: str
    seq: BoundedNumber
    reason: str

    @property
    def background(self) -> bool:
        return True


class HoldTold(ProtocolMessage, frozen=True, tag=320):
    """The broker takes no more publications for now, because of this; empty: it takes them again. It overtakes all
    else, because everything else may wait for the same disk."""

    express: ClassVar[bool] = True

    reason: str

    @property
    def background(self) -> bool:
        return True


class EventRead(FreeBundleMessage, frozen=True, tag=44):
    """One bundle of the past. Free, because it was asked for, and is no more than was asked for."""

    id: BoundedNumber
    bundle: Bundle
    offsets: Offsets | None
    """Where a condition picked some messages: their places in the original bundle."""
    tseq: TotalSequence
    """As in `Delivery`."""
    position: BoundedNumber
    life: BoundedNumber
    """Of the broker that kept it."""
    time_us: Microseconds
    """When it was kept."""


class EventGap(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of the past that the journal does not hold."""

    position: BoundedNumber
    """Where it is found: who reads from here, or from an earlier position, comes across it."""
    following: BoundedNumber
    """The first position behind it."""
    from_us: Microseconds
    """When the last event before it was kept, in microseconds since 1970; 0 when that is not known."""
    until_us: Microseconds
    """From when on everything is kept again; 0 when that is not known."""
    reason: str
    """Why they are missing: "broker b1 was down between its lives 3 and 4"."""


class EventsEnd(ProtocolMessage, frozen=True, tag=45):
    """That was all of one answer."""

    id: BoundedNumber
    journal: str
    following: BoundedNumber
    """The position to go on from."""
    first: BoundedNumber
    """The first position that is kept, and the one behind the last."""
    end: BoundedNumber
    reason: str = ""
    """Why nothing was read; empty when it was."""
    life: BoundedNumber = 0
    """Of the broker that kept the last event that was looked at, whether it matched or not; 0 when there was none."""
    gaps: tuple[EventGap, ...] = ()
    """The gaps that the answer passes over, or the one for which it was refused."""
    retryable: bool = False
    """Whether nothing was read and the same request may succeed later."""
    begin: BoundedNumber = 0
    """Offset in a log at which the answer begins."""
    partitions: SeveralPartitions = 0
    """Number of partitions of the log, if it has several: the request must name one of them."""


class AudienceTold(ProtocolMessage, frozen=True, tag=31):
    """Answer to `AskAudience`."""

    id: BoundedNumber
    anybody: bool
    """False: nobody has a confirmed subscription. True: somebody may."""


class DeliveriesDropped(ProtocolMessage, frozen=True, tag=308):
    """These messages will not be delivered: more waited for the client than its share, and it asked for that
    (`WhenFull.DROP_OLDEST`). What was sent before is still under way. Answered by `DropsAcknowledged` at once."""

    spans: tuple[Span, ...]

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.spans)


CLIENT_MESSAGES = (
    Publish, Subscribe, Unsubscribe, Taken, DropsAcknowledged, Attend, ForgetBrokers, ReadEvents, AskAudience,
    Serving, Subscribed, SubscribeRefused, Unsubscribed, Delivery, Turned, PublishRefused, GoTo, Successors,
    BrokersForgotten, PublicationWaits, HoldTold, SafeCopies, EventRead, EventsEnd, AudienceTold, DeliveriesDropped,
    PlacedDelivery, TopicsReached, RetainedDelivery,
    *DURABLE_MESSAGES, *POSITION_MESSAGES, *VALUE_MESSAGES,
)  # fmt: skip
