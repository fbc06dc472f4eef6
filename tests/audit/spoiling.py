"""What ways to spoil a trace are made of: the list of them, and how rows are found, changed and moved."""

import random
from collections.abc import Callable
from typing import Any

import msgspec

from resprout.core.bundle import Pair, pairs_of, topics_of
from resprout.filters.predicate import topic_matches
from resprout.trace.schema import Row

Rows = list[Row]
Id = tuple[Any, ...]
Mutation = Callable[[Rows, random.Random], Rows | None]
REGISTERED: dict[str, tuple[str, Mutation]] = {}
"""By name: the rule that must notice, and the mutation."""

MESSAGE = ("publisher", "incarnation", "stream", "seq", "topic", "keys", "guarantee", "tseq")
"""Columns of a deliver row that say what was delivered."""


def mutation(rule: str) -> Callable[[Mutation], Mutation]:
    def register(function: Mutation) -> Mutation:
        REGISTERED[function.__name__] = (rule, function)
        return function

    return register


# -- what a trace holds -----------------------------------------------------------------------------------------------


def ident(row: Row) -> Id:
    return (row.publisher, row.incarnation, row.stream, row.seq)


def change(row: Row, **columns: Any) -> Row:
    return msgspec.structs.replace(row, **columns)


def lines(row: Row) -> set[Pair]:
    """What binds it to totals."""
    named = set(pairs_of(row.topic or "", row.keys or ()))
    return named or ({(row.topic or "", "")} if row.guarantee == "total" else named)


def places(rows: Rows, kind: str) -> list[int]:
    return [i for i, row in enumerate(rows) if row.kind == kind]


def publications(rows: Rows) -> dict[Id, int]:
    return {ident(rows[i]): i for i in places(rows, "publish")}


def steady(rows: Rows) -> set[str]:
    """Clients that neither crash, leave, freeze nor end a subscription."""
    shaken = {row.node for row in rows if row.kind in ("crash", "leave", "freeze", "unsubscribe", "unsubscribed")}
    return {row.node for row in rows if row.kind == "subscribed"} - shaken


def deliveries(rows: Rows) -> dict[str, list[int]]:
    """Of steady clients, in order."""
    found: dict[str, list[int]] = {name: [] for name in sorted(steady(rows))}
    for i in places(rows, "deliver"):
        if rows[i].node in found:
            found[rows[i].node].append(i)
    return found


def due(rows: Rows, client: str, published: int) -> bool:
    """Whether a subscription without condition was confirmed before the publication."""
    topics = topics_of(rows[published].topic or "", rows[published].keys or ())
    return any(
        row.kind == "subscribed" and row.node == client and row.where is None
        and any(topic_matches(row.filter or "", topic) for topic in topics)
        for row in rows[:published]
    )  # fmt: skip


def owed_deliveries(rows: Rows) -> list[int]:
    """Deliver rows that must be there, whatever else is."""
    made = publications(rows)
    down = {row.node for row in rows if row.kind in ("crash", "leave", "freeze")}
    failed = {ident(row) for row in rows if row.kind == "refused" or row.receipt == "failed"}
    return [
        i
        for client, here in deliveries(rows).items()
        for i in here
        if due(rows, client, made[ident(rows[i])]) and rows[i].publisher not in down and ident(rows[i]) not in failed
    ]


def renumbered(rows: Rows, client: str) -> Rows:
    """Positions of a client from 0 again, as they stand."""
    position = 0
    fresh = []
    for row in rows:
        if row.kind == "deliver" and row.node == client:
            row = change(row, position=position)
            position += 1
        fresh.append(row)
    return fresh


def moved(rows: Rows, begin: int, end: int) -> Rows:
    """One row taken to another place, at the time of the row that was there."""
    row = change(rows[begin], time_us=rows[end].time_us)
    rest = [*rows[:begin], *rows[begin + 1 :]]
    return [*rest[:end], row, *rest[end:]]


def exchanged(rows: Rows, one: int, other: int) -> Rows:
    """What was delivered at two places, the other way round."""
    fresh = list(rows)
    fresh[one] = change(rows[one], **{name: getattr(rows[other], name) for name in MESSAGE})
    fresh[other] = change(rows[other], **{name: getattr(rows[one], name) for name in MESSAGE})
    return fresh


def pick(rng: random.Random, choices: list[Any]) -> Any:
    return rng.choice(choices) if choices else None
