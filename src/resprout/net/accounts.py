"""A broker's account of itself, and a survey of all of them: the one form that commands and the live page read.

As JSON it is stable: fields are added, and never change their meaning. What a stack does not have is absent. Times are
seconds since 1970, rates are per second over the last ten, latencies in milliseconds over the last minute.
"""

from typing import Annotated, Final

import msgspec

from resprout.stacks.status import (
    Absent,
    Amount,
    Count,
    DurableSeen,
    HeldPublisher,
    LogSeen,
    MemberSeen,
    PausedSubscriber,
    RepairSeen,
    SpillSeen,
)

LISTED_MAX: Final = 4_096
"""Entries in each list of an account that an honest broker bounds itself: of brokers, clients, repairs and notices."""
LINES_MAX: Final = 256
"""The same of lists that it keeps short: what it noted, points of its history, brokers that went, reasons."""
_Listed: Final = msgspec.Meta(max_length=LISTED_MAX)
_Lines: Final = msgspec.Meta(max_length=LINES_MAX)


class Rates(msgspec.Struct, frozen=True):
    """Messages in a second."""

    publications: Amount = 0.0
    """From clients here."""
    deliveries: Amount = 0.0
    """To clients here, each copy."""
    carried: Amount = 0.0
    """From other brokers."""
    passed_on: Amount = 0.0
    """To other brokers, each copy."""


class LatencySummary(msgspec.Struct, frozen=True):
    """How long publishers here waited for a receipt."""

    publications: Count
    """That were timed: one in five milliseconds, at most."""
    p50_ms: Amount
    p99_ms: Amount


class Counters(msgspec.Struct, frozen=True):
    """Since the process began."""

    publications: Count
    publication_bytes: Count
    deliveries: Count
    delivery_bytes: Count
    carried: Count
    passed_on: Count
    receipts_safe: Count
    receipts_delivered: Count
    repairs: Count
    suspicions: Count
    publications_refused: Count
    subscriptions_refused: Count
    """Told to clients in their sessions; those that rules forbid are among the refusals, too."""
    refusals: Annotated[dict[str, Count], _Lines]
    """Who was turned away, or refused something, by reason."""


class NeighbourAccount(msgspec.Struct, frozen=True):
    """A broker with which there is a session."""

    name: str
    life: Count
    connected: bool
    queue_messages: Count
    """Sent, and not acknowledged."""
    queue_bytes: Count
    silent: bool = False
    neighbour: bool = True
    """Publications pass here; otherwise the session serves the tree itself."""


class ClientAccount(msgspec.Struct, frozen=True):
    name: str
    life: Count
    connected: bool
    queue_messages: Count
    """Sent, and not acknowledged."""
    queue_bytes: Count
    """Bytes that it has not taken: on their way, waiting in the client, or waiting for room here."""
    held: bool
    """Its publications wait: see `held` of the broker."""
    protocol: str = ""
    """What it speaks, such as "MQTT 5"; empty for a client of this package."""


class MqttAccount(msgspec.Struct, frozen=True):
    """What a broker serves to MQTT clients. Counts are since the process began."""

    addresses: tuple[str, ...]
    """Where it listens for them, with the scheme."""
    sessions: Count
    """That it keeps, with or without a connection."""
    connections: Count
    """That are open, those without CONNECT included."""
    connected: Count
    """Connections that were opened."""
    refused: Count
    """Connections that were turned away, or broke the protocol."""
    packets_received: Count
    packets_sent: Count
    bytes_received: Count
    bytes_sent: Count
    publications: Count
    deliveries: Count
    retained: Count
    """Retained messages of the network."""
    retained_bytes: Count


class JournalAccount(msgspec.Struct, frozen=True):
    """What is on disk."""

    bytes: Count
    records: Count
    event_bytes: Count | Absent = msgspec.UNSET


class StoreAccount(msgspec.Struct, frozen=True):
    """A folder that a broker writes to: `journal`, `events` or `spill`."""

    name: str
    state: str
    """`ok`, `low` (less than `warn_bytes` are free) or `full` (less than `min_bytes`, or a write failed)."""
    free_bytes: Count
    """-1 when nobody knows."""
    min_bytes: Count
    warn_bytes: Count
    failures: Count = 0
    """Writes that failed since the process began."""
    not_kept: Count = 0
    """Bundles of events that were left out since then."""
    trouble: str = ""
    """What the system said of the last write, if that failed."""
    full_since: Amount | Absent = msgspec.UNSET


class NotedLine(msgspec.Struct, frozen=True):
    time: Amount
    kind: str
    detail: str


class HistoryPoint(msgspec.Struct, frozen=True, array_like=True):
    """Five seconds of a broker: an array in JSON, because there are 120 of them."""

    time: Count
    """Their end, a multiple of five."""
    publications: Amount
    """Messages per second from clients here."""
    deliveries: Amount
    """Messages per second to clients here, each copy."""
    clients: Count


class DepartedBroker(msgspec.Struct, frozen=True):
    """A broker that was known, and has died or left."""

    name: str
    time: Amount
    """When its absence was noticed, within five seconds."""
    parent: str | Absent | None = msgspec.UNSET
    """The parent that it had."""


class BrokerAccount(msgspec.Struct, frozen=True):
    name: str
    life: Count
    address: str
    """Where others reach it."""
    stack: str
    version: str
    network: str
    time: Amount
    """When this was said, by its clock."""
    since: Amount
    """When the process began."""
    life_since: Amount
    ready: bool
    """It has its place, and serves clients."""
    neighbours: Annotated[tuple[NeighbourAccount, ...], _Listed]
    clients: Annotated[tuple[ClientAccount, ...], _Listed]
    """The first thousand."""
    clients_count: Count
    connections: Count
    queue_bytes: Count
    """Of all sessions."""
    rates: Rates
    counters: Counters
    members: Annotated[tuple[MemberSeen, ...], _Listed]
    """Brokers that it knows, as it knows them."""
    repairs: Annotated[tuple[RepairSeen, ...], _Listed]
    """That go on now."""
    recent: Annotated[tuple[NotedLine, ...], _Lines]
    """What it has noted lately, the last one last."""
    notices: Annotated[tuple[str, ...], _Listed]
    """What people should know about it."""
    parent: str | Absent | None = msgspec.UNSET
    site: str | Absent = msgspec.UNSET
    log_bytes: Count | Absent = msgspec.UNSET
    log_bundles: Count | Absent = msgspec.UNSET
    log_bytes_max: Count | Absent = msgspec.UNSET
    spill: SpillSeen | Absent = msgspec.UNSET
    journal: JournalAccount | Absent = msgspec.UNSET
    safe_latency: LatencySummary | Absent = msgspec.UNSET
    delivered_latency: LatencySummary | Absent = msgspec.UNSET
    http: str | Absent = msgspec.UNSET
    """Where it serves the live page."""
    stores: tuple[StoreAccount, ...] = ()
    """What it writes to, with the room that there is."""
    durables: Annotated[tuple[DurableSeen, ...], _Listed] = ()
    """Durable subscriptions that it holds."""
    logs: tuple[LogSeen, ...] = ()
    """Logs that it was told of, with the replica that it keeps."""
    paused: tuple[PausedSubscriber, ...] = ()
    """Subscribers anywhere that publishers wait for, as this broker knows them."""
    held: tuple[HeldPublisher, ...] = ()
    """Publishers here that wait, and why."""
    roles: tuple[str, ...] = ()
    """What it does for others now, in a few words each."""
    slow_consumers: Count = 0
    """Subscribers that were cut off in this life of the broker, because they did not read."""
    dropped_messages: Count = 0
    """Messages that were dropped for subscribers that want it so."""
    history: Annotated[tuple[HistoryPoint, ...], _Lines] = ()
    """The last ten minutes, the latest point last."""
    departed: Annotated[tuple[DepartedBroker, ...], _Lines] = ()
    """Brokers that this one knew, and that have gone in these minutes."""
    mqtt: MqttAccount | Absent = msgspec.UNSET


class MissingBroker(msgspec.Struct, frozen=True):
    """One that others know, and that did not tell."""

    name: str
    reason: str
    address: str | Absent = msgspec.UNSET
    parent: str | Absent | None = msgspec.UNSET
    dead: bool = False
    """Others say that it is; then it was not asked."""


class TreeSurvey(msgspec.Struct, frozen=True):
    """All that could be learnt by asking from one broker on."""

    name: str
    """Whom it began with."""
    incarnation: Count
    network: str
    notices: tuple[str, ...]
    """What people should know, of any of them."""
    time: Amount
    brokers: tuple[BrokerAccount, ...]
    """The one that was asked first, then by name."""
    missing: tuple[MissingBroker, ...] = ()


class TopicAnswer(msgspec.Struct, frozen=True):
    """Who gets a publication on a topic from one broker."""

    broker: str
    topic: str
    clients: tuple[str, ...]
    conditional: tuple[str, ...]
    onward: tuple[str, ...] | Absent = msgspec.UNSET
    roles: tuple[str, ...] = ()
    """What the broker is to the topic: `owner`, `leader`, `holder`."""


class PassageAnswer(msgspec.Struct, frozen=True):
    """What one broker remembers of a publication. Times are by its clock."""

    broker: str
    found: bool
    topic: str = ""
    guarantee: str = ""
    came_from: str = ""
    published_here: bool = False
    time: Amount | Absent = msgspec.UNSET
    passed_to: tuple[str, ...] = ()
    passed_time: Amount | Absent = msgspec.UNSET
    readers: tuple[str, ...] = ()
    """The first of them; how many there were is in `given`."""
    given: Count = 0
    shown_time: Amount | Absent = msgspec.UNSET
    safe_time: Amount | Absent = msgspec.UNSET
    delivered_time: Amount | Absent = msgspec.UNSET
    """When its publisher was told so, at the broker where it was published."""
