"""The values that the checks work on: publications, deliveries, subscribers and subscriptions.

`identity_of` and its siblings read the fields of a row; a row that makes no sense raises `TraceError`, with the same
text from every judge. `Naming` and its siblings are the one place that says how verdicts write publications, clients,
keys and times. *Row numbers* are places in the trace; rows are ordered by time, equal times as in the trace.

A subscription (`SubscriptionBook`) belongs to a life of a client and is named by its filter and condition. It goes
through four rows:

    subscribe      asked for: from here on deliveries are allowed
    subscribed     confirmed: what is published from here on is owed
    unsubscribe    asked to end: from here on nothing is owed, also of what was in flight
    unsubscribed   over: from here on deliveries are not allowed

Asking again for an open subscription changes nothing, nor does a refusal of that. Asking again after `unsubscribe`
begins another subscription. A confirmation without a request counts as both. A subscription that is refused before it
was confirmed or asked to end is over. When a session is lost, its confirmed subscriptions are over and are asked for
again at the same moment: the client machine does that by itself, and the next `subscribed` confirms them anew.
"""

import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from resprout.core.bundle import Pair, pairs_of, topics_of
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.trace import kinds
from resprout.trace.schema import Row, TraceError

NEVER: Final = sys.maxsize
"""Later than any row."""

MessageId = tuple[str, int, str, int]
"""(publisher, incarnation, stream, seq)."""


class SubscriptionRecord(msgspec.Struct):
    life: int
    predicate: Predicate
    asked: int
    """Rows of the four steps; later than any row while a step has not happened."""
    confirmed: int = NEVER
    ending: int = NEVER
    ended: int = NEVER
    repeats: int = 0
    """Further requests for it that were neither refused nor needed."""


class SubscriptionBook:
    def __init__(self) -> None:
        self._predicates: dict[tuple[str, str | None], Predicate] = {}
        self._open: dict[tuple[int, str, str | None], list[SubscriptionRecord]] = {}
        """Not yet over, oldest first."""

    def record(self, life: int, kind: str, row: int, filter_: str, where: str | None) -> SubscriptionRecord | None:
        """Takes one row; returns the subscription when it begins one. Raises UsageError for a filter or condition that
        cannot be read."""
        going = self._open.setdefault((life, filter_, where), [])
        begun = None
        if kind == kinds.SUBSCRIBE:
            lasting = next((s for s in going if s.ending == NEVER), None)
            if lasting is None:
                begun = SubscriptionRecord(life, self._predicate(filter_, where), row)
                going.append(begun)
            else:
                lasting.repeats += 1
            return begun
        if kind == kinds.SUBSCRIBED:
            current = next((s for s in going if s.confirmed == NEVER), None)
            if current is None and not any(s.ending == NEVER for s in going):
                current = begun = SubscriptionRecord(life, self._predicate(filter_, where), row)
                going.append(begun)
            if current is not None:
                current.confirmed = row
        elif kind == kinds.UNSUBSCRIBE:
            for subscription in going:
                subscription.ending = min(subscription.ending, row)
        elif kind == kinds.UNSUBSCRIBED:
            self._close(going, next((s for s in going if s.ending != NEVER), going[0] if going else None), row)
        elif kind == kinds.REFUSED:
            refused = next((s for s in going if s.ending == NEVER), None)
            if refused is not None and refused.repeats:
                refused.repeats -= 1
            elif refused is not None and refused.confirmed == NEVER:
                self._close(going, refused, row)
        return begun

    def lose(self, life: int, row: int) -> list[tuple[str, str | None, SubscriptionRecord]]:
        """The session of a life is lost; returns filter, condition and subscription of those that begin for the ones
        that are over."""
        begun = []
        for (owner, filter_, where), going in self._open.items():
            if owner != life:
                continue
            for subscription in [s for s in going if s.confirmed != NEVER and s.ending == NEVER]:
                self._close(going, subscription, row)
                fresh = SubscriptionRecord(life, subscription.predicate, row)
                begun.append((filter_, where, fresh))
                going.append(fresh)
        return begun

    def forget(self, life: int, filter_: str, where: str | None) -> None:
        """Nothing more happens to these: the life is over."""
        self._open.pop((life, filter_, where), None)

    @staticmethod
    def _close(going: list[SubscriptionRecord], subscription: SubscriptionRecord | None, row: int) -> None:
        if subscription is not None:
            subscription.ending = min(subscription.ending, row)
            subscription.ended = row
            going.remove(subscription)

    def _predicate(self, filter_: str, where: str | None) -> Predicate:
        known = self._predicates.get((filter_, where))
        if known is None:
            try:
                known = parse_predicate(filter_, where)
            except UsageError as error:
                raise UsageError(f"subscription {filter_!r}: {error}") from None
            self._predicates[filter_, where] = known
        return known


class PublicationFacts(msgspec.Struct, array_like=True, gc=False):
    """What is known of a publication when it is made."""

    number: int
    """Its place among all publications, in order of rows."""
    row: int
    time_us: int
    id: MessageId
    topic: str
    keys: tuple[str, ...]
    lane: str
    """What it is in order with has the same; see `core.guarantee`."""
    topics: tuple[str, ...]
    """Every topic it names; it matches a filter when any of them does."""
    lines: tuple[Pair, ...]
    """What binds it to totals; see `lines_of`."""
    guarantee: Guarantee
    ordered: bool
    """Not `eventual`, which has no order with anything."""
    attributes: dict[str, str] | None
    life: int
    """Number of the life that published it."""
    previous: int
    """The ordered publication of its lane that its client made before it; -1 when it is the first. The first one of a
    later life follows the last one of the earlier lives: what those had been given is forgotten."""


class PublicationRecord(PublicationFacts):
    pairs: tuple[Pair, ...]
    """Topics and keys that it names."""
    heard: int
    """How many sound deliveries its client's life had been given before it."""


@lru_cache(maxsize=1 << 16)
def names_of(topic: str, keys: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Pair, ...]]:
    """The topics that a publication names, and its pairs of topic and key, each once: `k` and `topic#k` may be one."""
    return topics_of(topic, keys), pairs_of(topic, keys)


def lines_of(topic: str, pairs: tuple[Pair, ...], guarantee: Guarantee, lane: str) -> tuple[Pair, ...]:
    """What binds a publication to totals: its pairs, or only those of its topic where order holds within each; for a
    total without keys, its topic with an empty key, which nothing else names."""
    if not pairs:
        return ((topic, ""),) if guarantee is Guarantee.TOTAL else ()
    return tuple(pair for pair in pairs if pair[0] == topic) if lane else pairs


class DeliveryRecord(msgspec.Struct, frozen=True, gc=False):
    row: int
    time_us: int
    position: int
    id: MessageId
    tseq: int | None
    """The place that the subscriber was told, of a total."""


class ClaimedPlace(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A place in the order of totals, and the subscriber that was told it."""

    tseq: int
    name: str
    node: str
    time_us: int


class ClientLife:
    """One subscriber: a client from its start or recovery to its crash or the end of the trace."""

    def __init__(self, number: int, node: str, ordinal: int) -> None:
        self.number = number
        self.node = node
        self.name = life_name(node, ordinal)
        self.end_row = NEVER
        self.frozen_since: int | None = None
        self.freezes: list[tuple[int, int]] = []
        self.expected = 0
        """The next position."""
        self.deliveries: list[DeliveryRecord] = []
        """All of them, in row order."""
        self.heard: list[int] = []
        """Publications of the first sound deliveries, in row order."""
        self.first: dict[int, DeliveryRecord] = {}
        """The first sound delivery of each publication."""
        self.sequence: list[int] = []
        """`heard`, by position."""
        self.early: dict[int, int] = {}
        """Publications with a delivery that stands before them, and the position of the first one."""
        self.drops = False
        """It asks to have the oldest dropped."""
        self.dropped: set[int] = set()
        """Publications that it was told to be dropped."""
        self.expired: set[int] = set()
        """Publications that came after they had expired."""
        self.subscriptions: list[SubscriptionRecord] = []
        self.losses: dict[int, int] = {}
        """Rows at which it was told that deliveries may be missing, and when that was."""

    @property
    def correct(self) -> bool:
        return self.end_row == NEVER and self.frozen_since is None

    def has(self, number: int) -> bool:
        """Whether there is any delivery of the publication, sound or not."""
        return number in self.first or number in self.early

    def place_of(self, number: int) -> int | None:
        """Where it delivered the publication first, in order of rows."""
        if (early := self.early.get(number)) is not None:
            return early
        return d.position if (d := self.first.get(number)) is not None else None

    def frozen_between(self, begin: int, end: int) -> bool:
        return any(since < end and until > begin for since, until in self.freezes)


def identity_of(number: int, row: Row) -> MessageId:
    """Of the publication that the row is about."""
    if row.publisher is None or row.incarnation is None or row.stream is None or row.seq is None:
        raise TraceError(f"row {number}: a {row.kind} row without publisher, incarnation, stream and seq")
    return (row.publisher, row.incarnation, row.stream, row.seq)


def guarantee_of(number: int, row: Row) -> tuple[str, Guarantee]:
    """The topic and the guarantee of a publish row."""
    if row.topic is None or row.guarantee is None:
        raise TraceError(f"row {number}: a publish row without topic or guarantee")
    if row.node != row.publisher and row.kind == kinds.PUBLISH:
        raise TraceError(f"row {number}: {row.node} reports a publication of {row.publisher}")
    try:
        guarantee = Guarantee.parse(row.guarantee)
    except UsageError as error:
        raise TraceError(f"row {number}: {error}") from None
    if guarantee.stream != row.stream:
        raise TraceError(f"row {number}: a {row.guarantee} publication in the {row.stream} stream")
    return row.topic, guarantee


def position_of(number: int, row: Row) -> int:
    """Of a delivery, which must have one. TraceError otherwise."""
    if row.position is None or row.position < 0:
        raise TraceError(f"row {number}: a deliver row without position")
    return row.position


def filter_of(number: int, row: Row) -> str:
    if row.filter is None:
        raise TraceError(f"row {number}: a {row.kind} row without filter")
    return row.filter


def predicate_of(number: int, row: Row) -> Predicate:
    filter_ = filter_of(number, row)
    try:
        return parse_predicate(filter_, row.where)
    except UsageError as error:
        raise TraceError(f"row {number}: {error}") from None


def count_of(number: int, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise TraceError(f"row {number}: {text!r} is no number of messages")
    return int(text)


def parsed_id(number: int, id: str) -> MessageId:
    """Return the message that has this id as text (`core.message.MessageId`)."""
    origin, _, seq = id.rpartition(":")
    source, _, stream = origin.rpartition("/")
    publisher, _, life = source.rpartition(".")
    return (publisher, count_of(number, life), stream, count_of(number, seq))


def durable_of(number: int, row: Row) -> str:
    """The name of the durable subscription that a row of a consumer is about."""
    name = (row.attributes or {}).get("durable")
    if name is None:
        raise TraceError(f"row {number}: a {row.kind} row without the name of a durable subscription")
    return name


def drops_oldest(row: Row) -> bool:
    """Return whether a row asks for a subscription whose oldest messages may be dropped."""
    return row.kind == kinds.SUBSCRIBE and "drop_oldest" in (row.attributes or {})


class Naming:
    """Writes `c1:42`; `c1:e42` when it is of the eventual stream, which counts on its own; `c1.2:42` when the client
    published under more than one incarnation."""

    def __init__(self, published: Iterable[MessageId]) -> None:
        incarnation: dict[str, int] = {}
        self._several = {p for p, i, _, _ in published if incarnation.setdefault(p, i) != i}

    def message(self, id: MessageId) -> str:
        publisher, incarnation, stream, seq = id
        life = f".{incarnation}" if publisher in self._several else ""
        return f"{publisher}{life}:{'e' if stream == 'eventual' else ''}{seq}"


def life_name(node: str, ordinal: int) -> str:
    """A client that came back after a crash is another subscriber."""
    return node if ordinal == 0 else f"{node} (life {ordinal + 1})"


def pair_name(pair: Pair) -> str:
    """As a publication would name a key of another topic; the empty one is that of totals without keys."""
    return f"{pair[0]}#{pair[1]}" if pair[1] else f"{pair[0]} and no key"


def seconds(time_us: int) -> str:
    return f"{time_us / 1_000_000:.6f} s"


def listed(items: list[str], shown_max: int = 4) -> str:
    """`a`, `a and b`, `a, b and c`; the middle of a long list is only counted."""
    if len(items) > shown_max:
        items = [*items[: shown_max - 2], f"{len(items) - shown_max + 1} more", items[-1]]
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
