"""Ways to spoil what writers of last values are told, and what readers and subscribers get of them; see `mutations`."""

import random
from collections.abc import Callable

from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.values.rows import RETAIN_KEY
from tests.audit.spoiling import Rows, change, mutation, pick


def _replaced(rows: Rows, rng: random.Random, where: Callable[[int], bool], made: Callable[[Row], Row]) -> Rows | None:
    i = pick(rng, [i for i in range(len(rows)) if where(i)])
    return None if i is None else [*rows[:i], made(rows[i]), *rows[i + 1 :]]


def _about(row: Row) -> dict[str, str]:
    return dict(row.attributes or {})


def _is_confirmed(rows: Rows, at: int) -> bool:
    """Whether the subscription that begins with this value is confirmed later, or the reader of this delivery has one
    that was confirmed before."""
    row = rows[at]
    if row.kind == kinds.DELIVER:
        return any(other.kind == kinds.SUBSCRIBED and other.node == row.node for other in rows[:at])
    for other in rows[at:]:
        if other.node == row.node and other.filter == row.filter:
            if other.kind == kinds.SUBSCRIBED:
                return True
            if other.kind in (kinds.UNSUBSCRIBE, kinds.VALUES_AGAIN):
                return False
    return False


def _begins_with(rows: Rows) -> list[int]:
    return [i for i, row in enumerate(rows) if row.kind == kinds.VALUE and _is_confirmed(rows, i)]


@mutation("kv_writes")
def turn_an_outcome_round(rows: Rows, rng: random.Random) -> Rows | None:
    def turned(row: Row) -> Row:
        about = _about(row)
        return change(row, attributes={**about, "applied": "no" if about["applied"] == "yes" else "yes"})

    return _replaced(rows, rng, lambda i: rows[i].kind == kinds.OUTCOME, turned)


@mutation("kv_writes")
def tell_a_writer_another_revision(rows: Rows, rng: random.Random) -> Rows | None:
    def told(row: Row) -> Row:
        return change(row, attributes={**_about(row), "current": "12345"})

    return _replaced(rows, rng, lambda i: rows[i].kind == kinds.OUTCOME, told)


@mutation("kv_reads")
def leave_a_value_out_of_a_read(rows: Rows, rng: random.Random) -> Rows | None:
    def lacks(row: Row) -> Row:
        return change(row, attributes=dict(list(_about(row).items())[1:]))

    return _replaced(
        rows, rng, lambda i: rows[i].kind == kinds.VALUES_READ and bool(rows[i].attributes) and not rows[i].detail,
        lacks,
    )  # fmt: skip


@mutation("kv_reads")
def read_from_before_everything(rows: Rows, rng: random.Random) -> Rows | None:
    """No violation where the reader had seen nothing."""
    return _replaced(
        rows, rng, lambda i: rows[i].kind == kinds.VALUES_READ and bool(rows[i].attributes),
        lambda row: change(row, tseq=0, attributes=None),
    )  # fmt: skip


@mutation("retained")
def begin_without_a_value(rows: Rows, rng: random.Random) -> Rows | None:
    """No violation where the value was removed while the subscription began."""
    i = pick(rng, _begins_with(rows))
    return None if i is None else [*rows[:i], *rows[i + 1 :]]


@mutation("retained")
def lose_a_retained_publication(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [
        i for i, row in enumerate(rows)
        if row.kind == kinds.DELIVER and RETAIN_KEY in (row.keys or ()) and row.node == "c0" and _is_confirmed(rows, i)
    ])  # fmt: skip
    return None if i is None else [*rows[:i], *rows[i + 1 :]]


@mutation("retained")
def begin_with_a_value_twice(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, _begins_with(rows))
    return None if i is None else [*rows[:i], rows[i], *rows[i:]]
