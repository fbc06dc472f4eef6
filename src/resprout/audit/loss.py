"""Nothing lost: what is owed and due at a correct subscriber whose subscription lasts, it delivers.

A publication is *due* at a subscriber when one of the subscriber's subscriptions matches it (any topic that it names
matches the filter, and the condition holds) and was confirmed before it and not asked to end before it, nor had the
subscriber crashed: see `audit.interest`. It stays due until the subscription is asked to end, because what is still
under way then is no loss. It also stays due until the session is lost and the client told; what is missing then is
reported as `lost_told`, because the client can do something about it.

A publication is *owed*, to all where it is due, when its receipt reached `safe`, or a correct subscriber delivered it,
or its publisher is correct and was not told that it failed; never when it was refused for good. That its publisher is
correct does not count while the publisher is held for a durable subscription that nobody consumes (`find_held`).

Only a run that came to rest can be judged: before that, what is missing may still be under way.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from resprout.audit.durable import DurableRecord
from resprout.audit.history import History
from resprout.audit.records import MessageId, seconds
from resprout.audit.subscriptions import NEVER
from resprout.audit.verdict import MET_TIME_LIMIT, Anomaly, NamedLife, Witness
from resprout.filters.predicate import Predicate

PROBABLE: Final = "the run promises probability: what is missing counts for the reliability"


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


def find_held(history: History, durables: Iterable[DurableRecord]) -> set[int]:
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


def owed(history: History, durables: Iterable[DurableRecord] = ()) -> bytearray:
    """For each publication, whether it is owed where it is due."""
    held = find_held(history, durables)
    safe, failed = set(), set()
    for _, row in history.receipts:
        if row.receipt in ("safe", "delivered"):
            safe.add((row.publisher, row.incarnation, row.stream, row.seq))
        elif row.receipt == "failed":
            failed.add((row.publisher, row.incarnation, row.stream, row.seq))
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
