"""What a stack's broker tells people and monitors about itself: plain values, made when somebody asks.

A stack tells what it has; what it has not is absent. What a driver knows by itself (sessions, queues, addresses) is not
asked of it. `readers_here` looks at every subscription, so it is for people who ask and not for publications.
"""

from typing import Annotated, Protocol, runtime_checkable

import msgspec

from resprout.edge.broker.sessions import ClientSessions
from resprout.filters.predicate import topic_matches
from resprout.overlay.messages import Place

Absent = msgspec.UnsetType
Count = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Amount = Annotated[float, msgspec.Meta(ge=-float(1 << 53), le=float(1 << 53))]
"""Bounds for numbers that other brokers tell of themselves: greater ones cannot be formatted as sizes or times."""


class MemberSeen(msgspec.Struct, frozen=True):
    """A broker as another one knows it."""

    name: str
    life: Count | Absent = msgspec.UNSET
    address: str | Absent = msgspec.UNSET
    parent: str | Absent | None = msgspec.UNSET
    """None: it is the root."""
    dead: bool = False
    """It was declared dead, and its place is not closed yet; or it is passed over until it returns."""


def seen(place: Place, dead: bool) -> MemberSeen:
    """Where stacks know places, and not whose child somebody is."""
    return MemberSeen(place.name, place.incarnation, place.address, dead=dead)


class RepairSeen(msgspec.Struct, frozen=True):
    """A repair that goes on."""

    dead: tuple[str, ...]
    by: str | None
    """Who leads it, as far as is known here."""


class SpillSeen(msgspec.Struct, frozen=True):
    """What waits on disk for those who are slow, in this life."""

    bytes: Count
    """On disk now."""
    bundles: Count
    bytes_max: Count
    spilled: Count
    """Bytes, ever."""
    refused: Count
    """How often there was no room, or the disk took nothing."""


class PausedSubscriber(msgspec.Struct, frozen=True):
    """A subscriber with too much unread: publishers of its topics wait."""

    name: str
    """Of a client, or of a durable subscription."""
    broker: str
    """That serves it."""
    durable: bool
    filters: tuple[str, ...]
    bytes: Count
    """Unread."""
    seconds: Amount
    """How long publishers have waited for it."""


class HeldPublisher(msgspec.Struct, frozen=True):
    """A client here whose publications wait."""

    name: str
    bytes: Count
    """That wait at its broker."""
    reason: str


class PositionSeen(msgspec.Struct, frozen=True):
    """The stored position of a reader of a log."""

    name: str
    offset: Count
    """Offset at which the reader continues."""
    lag: Count
    """Offsets between the position and the end of the log."""


class LogSeen(msgspec.Struct, frozen=True):
    """A declared log, as one broker sees it."""

    name: str
    filter: str
    replicas: tuple[str, ...]
    """Brokers that are declared to keep a replica."""
    role: str = ""
    """Role of the replica here: `leader`, `follower`, `joining` or `stopped`; empty if there is none."""
    leader: str = ""
    """Broker of the leader as the replica here knows it; empty if it knows none or there is no replica."""
    members: tuple[str, ...] = ()
    """Brokers that vote, as far as the replica here knows."""
    first: Count | Absent = msgspec.UNSET
    """First offset of the replica here when it was last read."""
    end: Count | Absent = msgspec.UNSET
    """Offset behind the last message of the replica here."""
    is_feeding: bool = False
    """Whether the feeder of the log runs here."""
    unfed: Count = 0
    """Bundles at the feeder here that are not in the log yet."""
    leaderless_seconds: Amount = 0.0
    """Seconds for which the replica here has known no leader with a majority."""
    behind_seconds: Amount = 0.0
    """Seconds for which it has lacked entries that the leader has."""
    trouble: str = ""
    """Reason why the replica is stopped; empty if it is not."""
    positions: tuple[PositionSeen, ...] = ()
    """Stored positions, as the replica here knows them."""
    compact: bool = False
    """Whether the log keeps the last message of each key for ever, and drops others."""
    compacted: Count | Absent = msgspec.UNSET
    """Offset up to which the replica here is compacted."""


class DurableConsumer(msgspec.Struct, frozen=True):
    """A consumer of a durable subscription."""

    name: str
    messages: Count
    """That it has, and has not acknowledged."""


class DurableSeen(msgspec.Struct, frozen=True):
    """A durable subscription, as the broker that holds it tells. Counts of events are of this holder, not of earlier
    ones."""

    name: str
    home: str
    """Broker that holds it."""
    filter: str
    group: bool
    when_full: str
    where: str | None = None
    owner: str = ""
    """Identity that it belongs to; empty: none."""
    max_deliver: Count = 0
    """0: a message is delivered as often as it takes."""
    ack_wait_seconds: Amount = 0.0
    """0: as long as the consumer is connected."""
    dead_letter: str = ""
    """Topic of its dead letters; empty: it has none."""
    consumers: tuple[DurableConsumer, ...] = ()
    """The first hundred."""
    consumers_count: Count = 0
    lag_messages: Count = 0
    """That are not acknowledged: all of the following."""
    waiting: Count = 0
    """Messages that no consumer has."""
    unacked: Count = 0
    """Messages that consumers have."""
    delayed: Count = 0
    """Messages that were rejected, and wait for their time."""
    dead: Count = 0
    """Messages that were given up, and whose dead letter is not safe yet."""
    lag_bytes: Count = 0
    lag_seconds: Amount = 0.0
    """For how long the oldest of them has been here, give or take a second."""
    redeliveries: Count = 0
    """Messages that came back without an acknowledgement."""
    dead_letters: Count = 0
    """Published, while it was held here."""
    dropped: Count = 0
    """Messages that were dropped or purged since the subscription began."""
    repeats: Count = 0
    """Messages that were dropped because one with the same `message_id` had come before."""
    follow_ups: Count = 0
    """Messages that were published together with the acknowledgement of another one (`publish_and_ack`)."""


class StackStatus(msgspec.Struct, frozen=True):
    serving: bool = True
    """It has its place, and serves clients."""
    parent: str | Absent | None = msgspec.UNSET
    """None: it is the root. Absent where there is no tree."""
    neighbours: tuple[str, ...] = ()
    """Those it passes publications to, its parent included."""
    members: tuple[MemberSeen, ...] = ()
    """Brokers that it knows, itself left out."""
    silent: tuple[str, ...] = ()
    """Neighbours that it does not hear at the moment."""
    repairs: tuple[RepairSeen, ...] = ()
    site: str | Absent = msgspec.UNSET
    roles: tuple[str, ...] = ()
    """What it does for others now, in a few words each: "leads the site s1"."""
    log_bytes: Count | Absent = msgspec.UNSET
    """What it keeps for others, or for readers here."""
    log_bundles: Count | Absent = msgspec.UNSET
    log_bytes_max: Count | Absent = msgspec.UNSET
    """Of what local clients published: beyond it they are held back."""
    spill: SpillSeen | Absent = msgspec.UNSET
    """Absent where nobody asked for it."""
    paused: tuple[PausedSubscriber, ...] = ()
    """Subscribers anywhere that publishers wait for."""
    held: tuple[HeldPublisher, ...] = ()
    """Publishers here that wait."""
    unread: dict[str, int] = {}
    """By client: bytes that were shown to it and that it has not taken; those with none are left out."""
    slow_consumers: Count = 0
    """Subscribers that were cut off in this life."""
    dropped_messages: Count = 0
    """Messages that were dropped in this life, because a subscriber that wants it so was slow."""
    notices: tuple[str, ...] = ()
    """Lines for operators about problems."""
    logs: tuple[LogSeen, ...] = ()
    """Logs that are declared at this broker."""
    durables: tuple[DurableSeen, ...] = ()
    """Durable subscriptions that are held here; the first thousands."""
    refused: dict[str, int] = {}
    """What brokers said that was not theirs to say and did not cost them their links: how often, by reason."""


class TopicReaders(msgspec.Struct, frozen=True):
    """Who gets a publication on a topic from one broker."""

    clients: tuple[str, ...] = ()
    conditional: tuple[str, ...] = ()
    """Clients that get it if its attributes fit."""
    onward: tuple[str, ...] | Absent = msgspec.UNSET
    """Neighbours behind which somebody wants it; absent where everything is passed on."""
    roles: tuple[str, ...] = ()
    """What the broker is to the topic: `owner`, `leader`, `holder` of its log; none where topics have no such brokers.
    A publication goes to the leader first, and `onward` from there."""


@runtime_checkable
class TellsStatus(Protocol):
    """A broker that can be asked. Asking changes nothing."""

    def status(self) -> StackStatus: ...

    def readers(self, topic: str) -> TopicReaders: ...


def readers_here(sessions: ClientSessions, topic: str) -> TopicReaders:
    clients, conditional = [], []
    for name, session in sessions.all.items():
        wanted = [one for one in session.subscriptions.values() if topic_matches(one.filter, topic)]
        if any(one.where is None for one in wanted):
            clients.append(name)
        elif wanted:
            conditional.append(name)
    return TopicReaders(tuple(clients), tuple(conditional))
