"""Ways to spoil what consumers of durable subscriptions were handed; see `mutations`."""

import random

from tests.audit.spoiling import MESSAGE, Rows, change, ident, mutation, pick, places


def _about(rows: Rows, i: int) -> dict[str, str]:
    return rows[i].attributes or {}


@mutation("durable")
def lose_of_a_durable_subscription(rows: Rows, rng: random.Random) -> Rows | None:
    if any(row.kind in ("freeze", "cut", "partition", "timeout") for row in rows):
        return None
    shaken = {row.node for row in rows if row.kind in ("crash", "leave")}
    failed = {ident(row) for row in rows if row.receipt == "failed"}
    sure = [i for i in places(rows, "handed") if rows[i].publisher not in shaken and ident(rows[i]) not in failed]
    i = pick(rng, sure)
    if i is None:
        return None
    name, lost = _about(rows, i)["durable"], ident(rows[i])
    return [
        row
        for j, row in enumerate(rows)
        if row.kind not in ("handed", "acknowledged") or ident(row) != lost or _about(rows, j)["durable"] != name
    ]


@mutation("durable")
def hand_out_twice_without_a_word(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for i in places(rows, "handed") if "redelivered" not in _about(rows, i)])
    return None if i is None else [*rows[:-1], change(rows[i], time_us=rows[-1].time_us), rows[-1]]


@mutation("durable")
def hand_out_what_was_acknowledged(rows: Rows, rng: random.Random) -> Rows | None:
    """To the same consumer again, which says that it may have been handed out before."""
    died = {rows[i].node: i for i in places(rows, "crash")}
    done = {(rows[i].node, *ident(rows[i]), _about(rows, i)["durable"]): i for i in places(rows, "acknowledged")}
    last = {rows[i].node: i for i in places(rows, "handed")}
    alive = [i for node, i in last.items() if i > died.get(node, -1)]
    i = pick(rng, [i for i in alive if done.get((rows[i].node, *ident(rows[i]), _about(rows, i)["durable"]), -1) > i])
    if i is None:
        return None
    again = change(rows[i], time_us=rows[-1].time_us, attributes={**_about(rows, i), "redelivered": "yes"})
    return [*rows[:-1], again, rows[-1]]


@mutation("durable")
def swap_at_a_consumer(rows: Rows, rng: random.Random) -> Rows | None:
    handed = [i for i in places(rows, "handed") if _about(rows, i) == {"durable": "billing"}]
    lives = {i: sum(row.kind == "consume" and row.node == "d1" for row in rows[:i]) for i in handed}
    found = [
        (i, j)
        for n, i in enumerate(handed)
        for j in handed[n + 1 : n + 12]
        if rows[i].publisher == rows[j].publisher
        and rows[i].stream == rows[j].stream == "ordered"
        and rows[i].incarnation == rows[j].incarnation
        and lives[i] == lives[j]
        and any(row.kind == "publish" and ident(row) == ident(rows[j]) for row in rows[:i])
    ]
    pair = pick(rng, found)
    if pair is None:
        return None
    one, other = pair
    fresh = list(rows)
    fresh[one] = change(rows[one], **{name: getattr(rows[other], name) for name in MESSAGE})
    fresh[other] = change(rows[other], **{name: getattr(rows[one], name) for name in MESSAGE})
    return fresh


@mutation("durable")
def hand_out_what_nobody_published(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "handed"))
    return None if i is None else [*rows[: i + 1], change(rows[i], seq=1_000_000), *rows[i + 1 :]]
