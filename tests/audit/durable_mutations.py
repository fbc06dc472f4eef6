"""Ways to spoil what consumers of durable subscriptions were handed; see `mutations`."""

import random

from resprout.audit.history import UNREST
from resprout.trace.schema import Row
from tests.audit.spoiling import MESSAGE, Rows, change, ident, lines, mutation, pick, places


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
def forget_a_delivery(rows: Rows, rng: random.Random) -> Rows | None:
    """A consumer that died and returned is handed what it had, as if for the first time."""
    consumers = {row.node for row in rows if row.kind == "consume"}
    if any(row.kind in UNREST and row.node not in consumers for row in rows):
        return None
    found = []
    for i in places(rows, "handed"):
        begun_us = max([rows[j].time_us for j in places(rows, "consume") if j < i and rows[j].node == rows[i].node])
        before = [j for j in places(rows, "handed") if j < i and ident(rows[j]) == ident(rows[i])]
        same = [j for j in before if _about(rows, j)["durable"] == _about(rows, i)["durable"]]
        if "deliveries" in _about(rows, i) and any(rows[j].time_us < begun_us for j in same):
            found.append(i)
    i = pick(rng, found)
    if i is None:
        return None
    about = {name: value for name, value in _about(rows, i).items() if name != "deliveries"}
    return [*rows[:i], change(rows[i], attributes=about), *rows[i + 1 :]]


@mutation("durable")
def hand_out_what_nobody_published(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "handed"))
    return None if i is None else [*rows[: i + 1], change(rows[i], seq=1_000_000), *rows[i + 1 :]]


QUIET_US = 60_000_000
"""So long that everything is known to everybody, and whoever is not heard is gone."""


def _quiet_from(rows: Rows, place: int) -> Rows:
    """Nothing happens for long before this place."""
    return [*rows[:place], *[change(row, time_us=row.time_us + QUIET_US) for row in rows[place:]]]


@mutation("durable")
def lose_with_a_consumer(rows: Rows, rng: random.Random) -> Rows | None:
    """It dies with something that nobody is handed again; it returns, or there are others."""
    if any(row.kind in ("freeze", "cut", "partition", "timeout") for row in rows):
        return None
    shaken = {row.node for row in rows if row.kind in ("crash", "leave")}
    failed = {ident(row) for row in rows if row.receipt == "failed"}
    spoiled = []
    for i in places(rows, "handed"):
        died = [j for j in places(rows, "crash") if j > i and rows[j].node == rows[i].node]
        if rows[i].publisher in shaken or ident(rows[i]) in failed or not died:
            continue
        name, lost = _about(rows, i)["durable"], ident(rows[i])
        more = [
            j
            for j in (*places(rows, "handed"), *places(rows, "acknowledged"))
            if j != i and ident(rows[j]) == lost and _about(rows, j)["durable"] == name
        ]
        if all(j > i for j in more):
            spoiled.append((i, set(more)))
    found = pick(rng, spoiled)
    if found is None:
        return None
    kept = [row for j, row in enumerate(rows[:-1]) if j not in found[1]]
    return [*kept, change(rows[-1], time_us=rows[-1].time_us + QUIET_US)]


@mutation("durable")
def hand_out_what_is_known_to_be_done(rows: Rows, rng: random.Random) -> Rows | None:
    """To somebody else, long after it was acknowledged by one that lived on."""
    if any(row.kind in ("freeze", "cut", "partition") for row in rows):
        return None
    died = {rows[i].node: i for i in places(rows, "crash")}
    last = [i for i in places(rows, "acknowledged") if i > died.get(rows[i].node, -1)]
    handed = {(ident(rows[i]), _about(rows, i)["durable"]): i for i in places(rows, "handed")}
    i = pick(rng, [i for i in last if _about(rows, i)["durable"] == "workers"])
    if i is None:
        return None
    given = rows[handed[ident(rows[i]), "workers"]]
    other = "w1" if rows[i].node == "w2" else "w2"
    at_us = rows[-1].time_us + 2 * QUIET_US
    begun = [row for row in rows if row.kind in ("consume", "consuming") and row.node == other][:2]
    crash = Row(time_us=at_us, node=other, kind="crash")
    back = [crash, change(crash, kind="recover"), *[change(row, time_us=at_us) for row in begun]]
    again = change(given, time_us=at_us, node=other, attributes={"durable": "workers", "redelivered": "yes"})
    done = change(rows[i], time_us=at_us, node=other)
    return [*rows[:-1], *back, again, done, change(rows[-1], time_us=at_us)]


@mutation("durable")
def give_a_key_to_two(rows: Rows, rng: random.Random) -> Rows | None:
    """One has a message of the key, and the other is handed the next one."""
    if any(row.kind in ("freeze", "cut", "partition") for row in rows):
        return None
    handed = [i for i in places(rows, "handed") if _about(rows, i) == {"durable": "workers"} and rows[i].keys]
    done = {ident(rows[i]): i for i in places(rows, "acknowledged") if _about(rows, i)["durable"] == "workers"}
    ends = [i for i, row in enumerate(rows) if row.kind in UNREST]
    found = [
        (i, j)
        for n, i in enumerate(handed)
        for j in handed[n + 1 :]
        if rows[i].node == rows[j].node
        and lines(rows[i]) & lines(rows[j])
        and done.get(ident(rows[i]), -1) > j
        and done.get(ident(rows[j]), -1) > j
        and not any(i < at < done[ident(rows[j])] for at in ends)
    ]
    pair = pick(rng, found)
    if pair is None:
        return None
    i, j = pair
    other = "w1" if rows[i].node == "w2" else "w2"
    fresh = list(rows)
    fresh[j] = change(rows[j], node=other)
    fresh[done[ident(rows[j])]] = change(rows[done[ident(rows[j])]], node=other)
    return _quiet_from(fresh, i)
