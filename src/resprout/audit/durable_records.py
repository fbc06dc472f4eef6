"""Read what the rows of a trace say of durable subscriptions: who consumed, was handed what and acknowledged it."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from resprout.audit.follow_ups import read_follow_up
from resprout.audit.history import History
from resprout.audit.interest import matches
from resprout.audit.records import (
    MessageId,
    PublicationRecord,
    count_of,
    durable_of,
    identity_of,
    parsed_id,
    predicate_of,
)
from resprout.core.bundle import Pair
from resprout.core.message_ids import WINDOW_US
from resprout.filters.predicate import Predicate
from resprout.trace import kinds
from resprout.trace.schema import Row, TraceError, values

ConsumerLife = tuple[str, int]
"""A client, and how often it had begun to consume the subscription."""


class HandedOut(NamedTuple):
    row: int
    time_us: int
    life: ConsumerLife
    is_again: bool
    """It says that it may have been handed out before."""
    deliveries: int = 1
    """How often it says that it was handed out."""


class DeadLetterRow(NamedTuple):
    row: int
    time_us: int
    node: str
    """Broker that published it."""
    letter: MessageId
    deliveries: int
    """How often the message was handed out, as it says."""


class DurableRecord:
    """The rows of one durable subscription."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.predicate: Predicate | None = None
        """As it was confirmed first."""
        self.is_group = False
        self.drops = False
        """It asks to have the oldest dropped."""
        self.dropped = 0
        """Messages that were dropped, as far as consumers were told."""
        self.confirmed: int | None = None
        self.handed: dict[MessageId, list[HandedOut]] = {}
        self.acknowledged: dict[tuple[ConsumerLife, MessageId], int] = {}
        self.done: dict[MessageId, list[tuple[int, ConsumerLife]]] = {}
        """When it was acknowledged by whom."""
        self.lives: dict[str, int] = {}
        """By client: how often it began."""
        self.begun: dict[ConsumerLife, int] = {}
        self.over: dict[ConsumerLife, int] = {}
        """When they were over."""
        self.present: dict[str, int] = {}
        """The consumers at the end of the trace, and the time since which they consume."""
        self.asked: int | None = None
        """The row of the first that wanted to consume it."""
        self.hands = Hands()
        self.max_deliver = self.ack_wait_us = 0
        self.rejected: dict[tuple[ConsumerLife, MessageId], int] = {}
        """The last row in which a consumer rejected it, or gave it up."""
        self.terminated: dict[MessageId, int] = {}
        """The first row in which a consumer gave it up."""
        self.dead: dict[MessageId, list[DeadLetterRow]] = {}
        self.is_mqtt = False
        """Whether it is one of an MQTT session: such messages do not say how often they were handed out."""
        self.followed: dict[MessageId, MessageId] = {}
        """By message: its follow-up."""
        self.second_follow_ups: list[tuple[MessageId, Row]] = []
        self.told_of_follow_up: dict[MessageId, Row] = {}
        """Messages of which a consumer was told that their follow-up is published."""
        self.message_id_us = WINDOW_US
        """How long its broker recognises repeats."""

    def is_judged_for_loss(self, history: History) -> bool:
        is_kept = self.confirmed is not None and bool(self.present)
        return is_kept and history.is_whole and not history.promise.is_probable

    def life(self, node: str) -> ConsumerLife:
        return node, self.lives.get(node, 0)

    def may_hold(self, p: PublicationRecord) -> bool:
        """Return whether the subscription may delay the receipt `delivered` of a publication.

        It may if no consumer has acknowledged the publication, or if it has no consumer at the end: the receipts of a
        bundle come together, and the rest of the bundle may wait for a consumer. A publication that was made before
        the subscription was asked for may still have been on its way.
        """
        if self.predicate is None or self.asked is None:
            return False
        is_settled = p.id in self.done or p.id in self.dead or p.id in self.followed
        is_open = p.row > self.asked and not is_settled if self.present else True
        return is_open and matches(self.predicate, p)

    def follow(self, of: MessageId, follow_up: MessageId, row: Row) -> None:
        if self.followed.setdefault(of, follow_up) != follow_up:
            self.second_follow_ups.append((of, row))

    def told_safe(self) -> Iterator[MessageId]:
        """Return follow-ups that are safe, because a consumer was told so."""
        return (self.followed[id] for id in self.told_of_follow_up if id in self.followed)

    @property
    def may_come_back(self) -> bool:
        """Whether consumers may reject messages."""
        return self.max_deliver > 0 or self.ack_wait_us > 0

    @property
    def blocks_at_end(self) -> bool:
        """Whether it has no consumer at the end, so that publishers of its topics may have to wait for good."""
        return self.confirmed is not None and not self.present and not self.drops

    def may_block(self, p: PublicationRecord) -> bool:
        """Return whether a publication may wait at its publisher because nobody consumes."""
        return self.asked is not None and p.row > self.asked and self.may_hold(p)

    def end(self, node: str, time_us: int) -> None:
        """It consumes no longer."""
        self.present.pop(node, None)
        self.over.setdefault(self.life(node), time_us)
        self.hands.leave(self.life(node))


class Hands:
    """Who has messages of which key, and has not acknowledged them."""

    def __init__(self) -> None:
        self._of: dict[Pair, dict[tuple[ConsumerLife, MessageId], HandedOut]] = {}
        self.found: list[tuple[MessageId, HandedOut, MessageId, HandedOut]] = []
        """What was handed to one while another had something of the same key."""

    def give(self, pairs: Iterable[Pair], id: MessageId, handed: HandedOut) -> None:
        for pair in pairs:
            mine = self._of.setdefault(pair, {})
            self.found += [(id, handed, other, had) for (life, other), had in mine.items() if life != handed.life]
            mine.setdefault((handed.life, id), handed)

    def take(self, pairs: Iterable[Pair], id: MessageId) -> None:
        """Somebody has acknowledged it."""
        for pair in pairs:
            mine = self._of.get(pair, {})
            for held in [held for held in mine if held[1] == id]:
                del mine[held]

    def let_go(self, pairs: Iterable[Pair], id: MessageId, life: ConsumerLife) -> None:
        """It has not acknowledged it, and does not have it any more."""
        for pair in pairs:
            self._of.get(pair, {}).pop((life, id), None)

    def leave(self, life: ConsumerLife) -> None:
        for mine in self._of.values():
            for held in [held for held in mine if held[0] == life]:
                del mine[held]


def read_durables(history: History) -> list[DurableRecord]:
    """Every durable subscription of a trace. Raises TraceError for rows that do not make sense."""
    found: dict[str, DurableRecord] = {}
    for number, row in history.consumed:
        if row.kind in (kinds.CRASH, kinds.LEAVE):
            for each in found.values():
                each.end(row.node, row.time_us)
            continue
        if row.kind == kinds.DEAD_LETTER:
            _read_dead_letter(found, number, row)
            continue
        if row.kind == kinds.FOLLOW_UP:
            name, of, follow_up = read_follow_up(number, row)
            each = found.setdefault(name, DurableRecord(name))
            each.follow(of, follow_up, row)
            each.hands.take(_pairs(history, of), of)  # its consumer has processed it
            continue
        name = durable_of(number, row)
        each = found.setdefault(name, DurableRecord(name))
        about = row.attributes or {}
        if row.kind == kinds.CONSUME:
            each.end(row.node, row.time_us)
            each.lives[row.node] = each.lives.get(row.node, 0) + 1
            each.begun[each.life(row.node)] = row.time_us
            each.asked = number if each.asked is None else each.asked
            each.drops |= "drop_oldest" in about
            each.max_deliver = count_of(number, about.get("max_deliver", "0"))
            each.ack_wait_us = count_of(number, about.get("ack_wait", "0"))
            each.message_id_us = count_of(number, about.get("message_ids", str(WINDOW_US)))
            asked = predicate_of(number, row)
            if each.confirmed is None:
                each.predicate, each.is_group = asked, "group" in about
        elif row.kind == kinds.CONSUMING:
            each.confirmed = number if each.confirmed is None else each.confirmed
            each.present.setdefault(row.node, row.time_us)
        elif row.kind == kinds.CONSUME_OVER:
            each.end(row.node, row.time_us)
        elif row.kind == kinds.ACKNOWLEDGED:
            id = identity_of(number, row)
            each.acknowledged.setdefault((each.life(row.node), id), number)
            each.done.setdefault(id, []).append((row.time_us, each.life(row.node)))
            if "follow_up" in about:
                each.told_of_follow_up.setdefault(id, row)
            each.hands.take(_pairs(history, id), id)
        elif row.kind in (kinds.REJECTED, kinds.TERMINATED):
            id = identity_of(number, row)
            each.rejected[each.life(row.node), id] = number
            each.hands.let_go(_pairs(history, id), id, each.life(row.node))
            if row.kind == kinds.TERMINATED:
                each.terminated.setdefault(id, number)
        elif row.kind == kinds.DROPS_TOLD:
            each.dropped = max(each.dropped, count_of(number, about.get("dropped", "")))
        else:
            id = identity_of(number, row)
            each.is_mqtt |= "qos" in about
            deliveries = count_of(number, about.get("deliveries", "1"))
            handed = HandedOut(number, row.time_us, each.life(row.node), "redelivered" in about, deliveries)
            each.handed.setdefault(id, []).append(handed)
            if each.is_group:
                each.hands.give(_pairs(history, id), id, handed)
    return list(found.values())


def _read_dead_letter(found: dict[str, DurableRecord], number: int, row: Row) -> None:
    about = values(row.attributes)
    name, id, deliveries = (about.get(key) for key in ("dead_subscription", "dead_id", "dead_deliveries"))
    if not isinstance(name, str) or not isinstance(id, str) or not isinstance(deliveries, int):
        raise TraceError(f"row {number}: a dead letter that does not say whose it is")
    message = parsed_id(number, id)
    letter = DeadLetterRow(number, row.time_us, row.node, identity_of(number, row), deliveries)
    found.setdefault(name, DurableRecord(name)).dead.setdefault(message, []).append(letter)


def _pairs(history: History, id: MessageId) -> tuple[Pair, ...]:
    p = history.published(id)
    return tuple([pair for pair in p.pairs if pair[1]]) if p is not None else ()
