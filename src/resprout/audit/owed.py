"""Which subscribers each publication was promised to.

A publication is *due* at a subscriber when one of the subscriber's subscriptions matches it (any topic that it names
matches the filter, and the condition holds) and was confirmed before it and not asked to end before it, nor had the
subscriber crashed: see `audit.interest`. It stays due until the subscription is asked to end: nobody can be blamed for
what was still under way then. So it does until the session is lost, and the client told; but what is missing then is
counted as that.

A publication is *owed*, to all where it is due, when its receipt reached `safe`, or a correct subscriber delivered it,
or its publisher is correct and was not told that it failed; never when it was refused for good.
"""

from typing import NamedTuple

from resprout.audit.history import History
from resprout.audit.records import NEVER


def is_owed(is_refused: bool, is_safe: bool, is_delivered: bool, has_failed: bool, is_correct: bool) -> bool:
    """`is_delivered`: by a correct subscriber; `is_correct`: its publisher."""
    return not is_refused and (is_safe or is_delivered or (is_correct and not has_failed))


def owed(history: History) -> bytearray:
    """For each publication, whether it is owed where it is due."""
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
            history.lives[p.life].correct,
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
