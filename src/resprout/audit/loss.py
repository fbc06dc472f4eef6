"""Nothing owed is lost, and receipts are true.

A publication is *due* at a subscriber when one of the subscriber's subscriptions matches it (any topic that it names
matches the filter, and the condition holds) and was confirmed before it and not asked to end before it, nor had the
subscriber crashed: see `audit.interest`. It stays due until the subscription is asked to end, because what is still
in flight then is no loss. It also stays due until the session is lost and the client told; what is missing then is
reported as `lost_told`, because the client can do something about it.

A publication is *owed*, to all where it is due, when its receipt reached `safe`, or a correct subscriber delivered it,
or its publisher is correct and was not told that it failed; never when it was refused for good. That its publisher is
correct does not count while the publisher is held for a durable subscription that nobody consumes (`find_held`). Only a
run that came to rest can be judged: before that, what is missing may still be in flight.

Receipts (`check_receipts`); each publication is checked by itself:

- A receipt belongs to a publication that was made before it.
- `accepted`, `safe`, `delivered` come in this order; steps may be left out or repeated, not taken back.
- `delivered` is not before the delivery at any correct subscriber where the publication is due and still due at the
  receipt. A subscriber that was frozen at any time in between is not counted.
  Delayed publications are left out.
- What was refused is refused for good: neither a delivery nor a receipt comes after it.
- The last receipt is told. It is due in a run that came to rest with all links whole and no node frozen, for a
  publication that was accepted and neither failed nor was refused, if the client that made it is correct: `safe` in any
  case, and `delivered` if every subscriber where it was ever due is correct, still wants it, and has it, and each
  durable subscription that asks for it has a consumer, and somebody has acknowledged it there. Receipts that the run
  does not promise are never due, nor is `delivered` at an MQTT client.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from resprout.audit.history import History
from resprout.audit.records import NEVER, MessageId, PublicationRecord, identity_of, seconds
from resprout.audit.timing import is_delayed
from resprout.audit.verdict import MET_TIME_LIMIT, Anomaly, NamedLife, Witness
from resprout.filters.predicate import Predicate
from resprout.trace.schema import Row, TraceError

PROBABLE: Final = "the run promises probability: what is missing counts for the reliability"

_STEPS = {"accepted": 0, "safe": 1, "delivered": 2}


class Holder(Protocol):
    """A durable subscription, or a log. It holds publications that nothing takes from it."""

    @property
    def blocks_at_end(self) -> bool:
        """Whether publishers of its topics may be blocked when the run ends."""

    def may_hold(self, p: PublicationRecord) -> bool:
        """Whether the receipt `delivered` of a publication may be missing because of it."""

    def may_block(self, p: PublicationRecord) -> bool:
        """Whether a publication may be blocked at its publisher because of it."""

    def told_safe(self) -> Iterator[MessageId]:
        """Return publications of brokers that it knows to be safe."""


class MissingDelivery(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What there is to say of a publication that a subscriber has not got."""

    time_us: int
    topic: str
    filter: str
    where: str | None
    """Of the subscription that asked for it."""
    told_us: int = -1
    """When the client was told that deliveries may be missing."""

    @staticmethod
    def asked_for(time_us: int, topic: str, asked: Predicate) -> "MissingDelivery":
        return MissingDelivery(time_us, topic, asked.filter, asked.where_text)

    @property
    def is_told(self) -> bool:
        return self.told_us >= 0


def check_loss(history: History, owed: bytearray) -> Iterator[Anomaly]:
    lives = history.lives
    for p in history.publications:
        if not owed[p.number]:
            continue
        for number, until in history.due[p.number]:
            life = lives[number]
            if life.correct and not life.has(p.number):
                if until == NEVER:
                    asked = history.interest.lasting(number, p)
                    assert asked is not None, "what is due has been asked for"
                    missing = MissingDelivery.asked_for(p.time_us, p.topic, asked)
                elif until in life.losses:
                    missing = MissingDelivery(p.time_us, p.topic, "", None, life.losses[until])
                else:
                    continue
                yield lost(history, life, p.id, missing)


def lost(w: Witness, life: NamedLife, id: MessageId, missing: MissingDelivery, instead: str = "") -> Anomaly:
    """`instead`: what came in its place, while it may still come."""
    name = w.naming.message(id)
    verb = "has not delivered" if instead else "never delivered"
    where = f" where {missing.where}" if missing.where else ""
    why = (
        f"and was told at {seconds(missing.told_us)} that deliveries may be missing"
        if missing.is_told
        else f"though its subscription {missing.filter}{where} was confirmed before"
    )
    text = f"{life.name} {verb} {name}, published on {missing.topic} at {seconds(missing.time_us)}, {instead}{why}"
    return Anomaly("lost_told" if missing.is_told else "lost", missing.time_us, life.node, (name,), text)


def not_judged(history: History) -> str | None:
    """Why loss cannot be judged, when it cannot."""
    if history.ended == "quiescent":
        return None
    if history.ended == "timeout":
        return MET_TIME_LIMIT
    return "the trace has no quiescent row, so deliveries may be missing from its end"


def is_owed(
    is_refused: bool, is_safe: bool, is_delivered: bool, has_failed: bool, is_correct: bool, is_held: bool = False
) -> bool:
    """`is_delivered`: by a correct subscriber; `is_correct`: its publisher; `is_held`: its publisher is held."""
    return not is_refused and (is_safe or is_delivered or (is_correct and not has_failed and not is_held))


def find_held(history: History, durables: Iterable[Holder]) -> set[int]:
    """Return the publications that wait at their publishers for durable subscriptions that nobody consumes.

    Such a subscription blocks publishers of its topics when its share or its disk is full. A publication that matches
    it waits if it was never accepted, and so do later ones of the same client.
    """
    unconsumed = [each for each in durables if each.blocks_at_end]
    if not unconsumed:
        return set()
    accepted = {(r.publisher, r.incarnation, r.stream, r.seq) for _, r in history.receipts if r.receipt != "failed"}
    blocked: set[str] = set()
    held: set[int] = set()
    for p in history.publications:
        if p.id not in accepted and (p.id[0] in blocked or any(each.may_block(p) for each in unconsumed)):
            blocked.add(p.id[0])
            held.add(p.number)
    return held


def owed(history: History, durables: Iterable[Holder] = ()) -> bytearray:
    """For each publication, whether it is owed where it is due."""
    held = find_held(history, durables)
    safe, failed = set(), set()
    for _, row in history.receipts:
        if row.receipt in ("safe", "delivered"):
            safe.add((row.publisher, row.incarnation, row.stream, row.seq))
        elif row.receipt == "failed":
            failed.add((row.publisher, row.incarnation, row.stream, row.seq))
    safe |= {follow_up for each in durables for follow_up in each.told_safe()}
    delivered = bytearray(len(history.publications))
    for life in history.lives:
        if life.correct:
            for number in life.heard:
                delivered[number] = 1
    return bytearray(
        is_owed(
            p.id in history.refused, p.id in safe, bool(delivered[p.number]), p.id in failed,
            history.lives[p.life].correct, p.number in held,
        )
        for p in history.publications
    )  # fmt: skip


class Came(NamedTuple):
    """How many deliveries were owed to correct subscribers, and what became of them. The rest is missing, and nobody
    was told."""

    owed: int
    came: int
    told: int
    """Missing, and the client was told that deliveries may be."""


def count_deliveries(history: History, owed: bytearray) -> Came:
    expected = came = told = 0
    for p in history.publications:
        if not owed[p.number]:
            continue
        for number, until in history.due[p.number]:
            life = history.lives[number]
            if life.correct and (until == NEVER or until in life.losses):
                expected += 1
                has = life.has(p.number)
                came += has
                told += not has and until != NEVER
    return Came(expected, came, told)


def check_receipts(history: History, durables: Sequence[Holder] = (), mqtt: Collection[str] = ()) -> Iterator[Anomaly]:
    """`mqtt`: the clients that speak MQTT, whose last receipt is `safe`."""
    reached: dict[MessageId, str] = {}
    for number, row in history.receipts:
        id = (row.publisher or "", row.incarnation or 0, row.stream or "", row.seq or 0)
        receipt = row.receipt or ""
        if receipt != "failed" and receipt not in _STEPS:
            raise TraceError(f"row {number}: unknown receipt {receipt!r}")
        published = history.number_of.get(id, -1)
        p = history.publications[published] if published >= 0 else None
        if p is None or p.row > number:
            yield _wrong(history, id, row, "which it had not published")
        elif history.refused.get(id, number) < number:
            yield _wrong(history, id, row, "after it was refused for good")
        elif receipt != "failed":
            before = reached.get(id)
            if before is not None and _STEPS[receipt] < _STEPS[before]:
                yield _wrong(history, id, row, f"after {before!r}")
            else:
                reached[id] = receipt
                if receipt == "delivered" and before != "delivered":
                    yield from _too_early(history, p, number, row)
    yield from _delivered_though_refused(history)
    if history.is_whole:
        yield from _never_told(history, durables, reached, mqtt)


def _never_told(
    history: History, durables: Sequence[Holder], reached: Mapping[MessageId, str], mqtt: Collection[str]
) -> Iterator[Anomaly]:
    given = history.promise.receipts
    failed = {identity_of(number, row) for number, row in history.receipts if row.receipt == "failed"}
    for id, receipt in reached.items():
        p = history.publications[history.number_of[id]]
        if receipt == "delivered" or id in failed or id in history.refused or not history.lives[p.life].correct:
            continue
        lives = [(history.lives[number], until) for number, until in history.due[p.number]]
        name = history.name(p.number)
        everywhere = all(life.correct and until == NEVER and life.has(p.number) for life, until in lives)
        everywhere = everywhere and id[0] not in mqtt and not any(each.may_hold(p) for each in durables)
        if "delivered" in given and everywhere:
            text = f"{id[0]} was never told that {name} is delivered, though all {len(lives)} that are owed it have it"
        elif "safe" in given and receipt == "accepted":
            text = f"{id[0]} was never told that {name} is safe"
        else:
            continue
        yield Anomaly("receipt", p.time_us, id[0], (name,), text)


def _too_early(history: History, p: PublicationRecord, number: int, row: Row) -> Iterator[Anomaly]:
    if is_delayed(p):
        return  # the client of a plain subscriber keeps it, and gives it to its program later
    for life_number, until in history.due[p.number]:
        life = history.lives[life_number]
        if until < number or not life.correct or p.number in life.early or life.frozen_between(p.row, number):
            continue
        d = life.first.get(p.number)
        if d is None or d.row > number:
            name = history.name(p.number)
            fact = "never delivered it" if d is None else f"delivered it only at {seconds(d.time_us)}"
            text = (
                f"{row.publisher} was told at {seconds(row.time_us)} that {name} is delivered, but {life.name} {fact}"
            )
            yield Anomaly("receipt", row.time_us, life.node, (name,), text)


def _delivered_though_refused(history: History) -> Iterator[Anomaly]:
    if not history.refused:
        return
    for life in history.lives:
        for d in life.deliveries:
            if d.id in history.refused:
                name = history.naming.message(d.id)
                text = f"{life.name} delivered {name} at {d.position}, though {d.id[0]} was told that it never will be"
                yield Anomaly("receipt", d.time_us, life.node, (name,), text)


def _wrong(history: History, id: MessageId, row: Row, why: str) -> Anomaly:
    name = history.naming.message(id)
    text = f"{row.node} was given the receipt {row.receipt!r} for {name} at {seconds(row.time_us)}, {why}"
    return Anomaly("receipt", row.time_us, row.node, (name,), text)
