"""Which subscribers each publication was promised to.

A publication is *due* at a subscriber when one of the subscriber's subscriptions matches it (any topic that it names
matches the filter, and the condition holds) and was confirmed before it and not asked to end before it, nor had the
subscriber crashed: see `audit.interest`. It stays due until the subscription is asked to end: nobody can be blamed for
what was still under way then. So it does until the session is lost, and the client told; but what is missing then is
counted as that.

A publication is *owed*, to all where it is due, when its receipt reached `safe`, or a correct subscriber delivered it,
or its publisher is correct and was not told that it failed; never when it was refused for good. That its publisher is
correct does not count while the publisher is held for a durable subscription that nobody consumes (`find_held`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from resprout.audit.durable import DurableRecord
from resprout.audit.history import History
from resprout.audit.records import NEVER


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
