"""Ways to spoil the trace of a bank, each with the rule that must notice."""

import random

from resprout.core.bundle import pairs_of
from resprout.trace.schema import Row
from tests.audit.spoiling import (
    Rows,
    change,
    ident,
    mutation,
    pick,
    places,
    publications,
)


def _total_applied(rows: Rows) -> list[int]:
    made = publications(rows)
    return [i for i in places(rows, "applied") if rows[made[ident(rows[i])]].guarantee == "total"]


def _with(row: Row, **cells: str) -> Row:
    return change(row, attributes={**(row.attributes or {}), **cells})


def _account(row: Row) -> str:
    return min(name for name in row.attributes or {} if name != "outcome")


@mutation("bank_conserved")
def make_money(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "applied"))
    if i is None:
        return None
    account = _account(rows[i])
    cents = int((rows[i].attributes or {})[account])
    return [*rows[:i], _with(rows[i], **{account: str(cents + 7)}), *rows[i + 1 :]]


@mutation("bank_balance")
def hold_another_balance(rows: Rows, rng: random.Random) -> Rows | None:
    """At a total that some other replica has executed too."""
    ids = [ident(rows[i]) for i in _total_applied(rows)]
    i = pick(rng, [i for i in _total_applied(rows) if ids.count(ident(rows[i])) > 1])
    if i is None:
        return None
    account = _account(rows[i])
    cents = int((rows[i].attributes or {})[account])
    return [*rows[:i], _with(rows[i], **{account: str(cents + 1)}), *rows[i + 1 :]]


@mutation("bank_negative")
def overdraw(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "applied"))
    return None if i is None else [*rows[:i], _with(rows[i], **{_account(rows[i]): "-1"}), *rows[i + 1 :]]


@mutation("bank_outcome")
def end_differently(rows: Rows, rng: random.Random) -> Rows | None:
    ids = [ident(rows[i]) for i in _total_applied(rows)]
    i = pick(rng, [i for i in _total_applied(rows) if ids.count(ident(rows[i])) > 1])
    return None if i is None else [*rows[:i], _with(rows[i], outcome=_other(rows[i])), *rows[i + 1 :]]


@mutation("bank_replay")
def end_wrongly_everywhere(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, _total_applied(rows))
    if i is None:
        return None
    spoiled = {j for j in places(rows, "applied") if ident(rows[j]) == ident(rows[i])}
    return [_with(row, outcome=_other(row)) if j in spoiled else row for j, row in enumerate(rows)]


@mutation("bank_applied")
def execute_twice(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "applied"))
    return None if i is None else [*rows[: i + 1], rows[i], *rows[i + 1 :]]


@mutation("bank_applied")
def execute_what_was_not_delivered(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "applied"))
    return None if i is None else [*rows[:i], change(rows[i], seq=1_000_000), *rows[i + 1 :]]


@mutation("bank_realtime")
def claim_an_order_against_time(rows: Rows, rng: random.Random) -> Rows | None:
    made = publications(rows)
    told = {ident(rows[i]): i for i in places(rows, "receipt") if rows[i].receipt == "delivered"}
    claims = {ident(rows[i]): rows[i].tseq for i in places(rows, "deliver") if rows[i].tseq is not None}
    found = [
        (one, other)
        for one in claims
        for other in claims
        if one in told and told[one] < made[other]
        and set(pairs_of(rows[made[one]].topic or "", rows[made[one]].keys or ()))
        & set(pairs_of(rows[made[other]].topic or "", rows[made[other]].keys or ()))
    ]  # fmt: skip
    pair = pick(rng, found)
    if pair is None:
        return None
    swapped = {pair[0]: claims[pair[1]], pair[1]: claims[pair[0]]}
    return [
        change(row, tseq=swapped[ident(row)]) if row.kind == "deliver" and ident(row) in swapped else row
        for row in rows
    ]


def _other(row: Row) -> str:
    return "refused" if (row.attributes or {})["outcome"] == "ok" else "ok"
