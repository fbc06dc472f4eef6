"""Ways to spoil a good trace, each with the rule that must notice.

A mutation takes the rows of a correct run (from the model here, or from a simulator) and a source of choices, and
returns spoiled rows, or None when the trace has no place for it. Each does one thing and keeps the rest plausible:
positions stay dense and times in order, so that only the rule it aims at has a reason to complain, and rules that
follow from it.
"""

import random
from collections.abc import Iterator

from resprout.core.bundle import topics_of
from resprout.filters.predicate import topic_matches
from resprout.trace.schema import Row
from tests.audit import (  # noqa: F401 - they put themselves on the list
    bank_mutations,
    durable_mutations,
    log_mutations,
    mqtt_model,
    timing_mutations,
    value_mutations,
)
from tests.audit.spoiling import (
    REGISTERED,
    Id,
    Mutation,
    Rows,
    change,
    deliveries,
    exchanged,
    ident,
    lines,
    moved,
    mutation,
    owed_deliveries,
    pick,
    places,
    publications,
    renumbered,
)

# -- sessions ---------------------------------------------------------------------------------------------------------


@mutation("lost_told")
def lose_the_session(rows: Rows, rng: random.Random) -> Rows | None:
    """Something owed does not come, and in the end the client is told that this may be."""
    i = pick(rng, owed_deliveries(rows))
    if i is None or rows[-1].kind != "quiescent":
        return None
    kept = renumbered([*rows[:i], *rows[i + 1 : -1]], rows[i].node)
    told = Row(time_us=rows[-1].time_us, node=rows[i].node, kind="session_lost", detail="nobody could carry it on")
    return [*kept, told, rows[-1]]


# -- presence ---------------------------------------------------------------------------------------------------------


@mutation("lost")
def drop(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, owed_deliveries(rows))
    return None if i is None else renumbered([*rows[:i], *rows[i + 1 :]], rows[i].node)


@mutation("lost")
def drop_first_after_confirmation(rows: Rows, rng: random.Random) -> Rows | None:
    first: dict[str, int] = {}
    for i in owed_deliveries(rows):
        first.setdefault(rows[i].node, i)
    i = pick(rng, list(first.values()))
    return None if i is None else renumbered([*rows[:i], *rows[i + 1 :]], rows[i].node)


@mutation("twice")
def duplicate(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for here in deliveries(rows).values() for i in here])
    if i is None:
        return None
    j = rng.choice([i, *(k for k in deliveries(rows)[rows[i].node] if k > i)])
    again = change(rows[i], time_us=rows[j].time_us)
    return renumbered([*rows[: j + 1], again, *rows[j + 1 :]], rows[i].node)


@mutation("invented")
def forge(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for here in deliveries(rows).values() for i in here])
    if i is None:
        return None
    fake = change(rows[i], seq=1_000_000)
    return renumbered([*rows[: i + 1], fake, *rows[i + 1 :]], rows[i].node)


@mutation("invented")
def deliver_before_publishing(rows: Rows, rng: random.Random) -> Rows | None:
    made = publications(rows)
    i = pick(rng, [i for here in deliveries(rows).values() for i in here])
    return None if i is None else renumbered(moved(rows, i, made[ident(rows[i])]), rows[i].node)


@mutation("invented")
def change_topic(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "deliver"))
    return None if i is None else [*rows[:i], change(rows[i], topic=f"{rows[i].topic}/x"), *rows[i + 1 :]]


@mutation("unasked")
def deliver_unasked(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "deliver"))
    return None if i is None else [*rows[: i + 1], change(rows[i], node="stranger", position=0), *rows[i + 1 :]]


@mutation("unasked")
def deliver_after_the_end(rows: Rows, rng: random.Random) -> Rows | None:
    """The only subscription that asked for a publication is over, and the publication comes after that."""
    crashed = {row.node for row in rows if row.kind in ("crash", "leave")}
    found = []
    for end in places(rows, "unsubscribed"):
        client = rows[end].node
        asked = [row.filter or "" for row in rows if row.kind == "subscribe" and row.node == client]
        for i in places(rows[:end], "deliver"):
            topics = topics_of(rows[i].topic or "", rows[i].keys or ())
            fitting = [f for f in asked if any(topic_matches(f, topic) for topic in topics)]
            if rows[i].node == client and client not in crashed and fitting == [rows[end].filter]:
                found.append((i, end))
    pair = pick(rng, found)
    return None if pair is None else renumbered(moved(rows, *pair), rows[pair[0]].node)


@mutation("position")
def skip_a_position(rows: Rows, rng: random.Random) -> Rows | None:
    client, here = pick(rng, [(c, h) for c, h in deliveries(rows).items() if h]) or (None, [])
    if client is None:
        return None
    begin = rng.choice(here)
    return [
        change(row, position=(row.position or 0) + 1) if i in here and i >= begin else row for i, row in enumerate(rows)
    ]


@mutation("identity")
def publish_twice(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "publish"))
    return None if i is None else [*rows[: i + 1], rows[i], *rows[i + 1 :]]


# -- order ------------------------------------------------------------------------------------------------------------


@mutation("fifo")
def swap(rows: Rows, rng: random.Random) -> Rows | None:
    made = publications(rows)
    found = [
        (i, j)
        for here in deliveries(rows).values()
        for n, i in enumerate(here)
        for j in here[n + 1 : n + 12]
        if rows[i].publisher == rows[j].publisher
        and rows[i].stream == rows[j].stream == "ordered"
        and made[ident(rows[j])] < i
    ]
    pair = pick(rng, found)
    return None if pair is None else exchanged(rows, *pair)


def _dependent(rows: Rows) -> Iterator[tuple[int, int]]:
    """Deliver rows (d, m) at one client where m is causal or total and its publisher had delivered d before."""
    made = publications(rows)
    heard: dict[str, dict[Id, int]] = {}
    for i in places(rows, "deliver"):
        heard.setdefault(rows[i].node, {}).setdefault(ident(rows[i]), i)
    crashed = {row.node for row in rows if row.kind == "crash"}
    for here in deliveries(rows).values():
        for n, j in enumerate(here):
            m = rows[j]
            if m.guarantee not in ("causal", "total") or m.publisher in crashed or m.publisher == m.node:
                continue
            for i in here[max(0, n - 12) : n]:
                known = heard.get(m.publisher or "", {}).get(ident(rows[i]), len(rows))
                if rows[i].stream == "ordered" and known < made[ident(m)]:
                    yield i, j


@mutation("causal")
def invert(rows: Rows, rng: random.Random) -> Rows | None:
    pair = pick(rng, list(_dependent(rows)))
    return None if pair is None else renumbered(moved(rows, pair[0], pair[1]), rows[pair[0]].node)


@mutation("causal")
def invert_across_topics(rows: Rows, rng: random.Random) -> Rows | None:
    pair = pick(rng, [(i, j) for i, j in _dependent(rows) if rows[i].topic != rows[j].topic])
    return None if pair is None else renumbered(moved(rows, pair[0], pair[1]), rows[pair[0]].node)


def _bound(rows: Rows, totals: int) -> Iterator[tuple[int, int]]:
    """Deliver rows of two ordered publications with a common key, so many of them totals, that two clients have."""
    holders: dict[frozenset[Id], int] = {}
    found: list[tuple[int, int]] = []
    made = publications(rows)
    for here in deliveries(rows).values():
        for n, i in enumerate(here):
            for j in here[n + 1 : n + 12]:
                one, other = rows[i], rows[j]
                common = lines(one) & lines(other)
                if one.stream != "ordered" or other.stream != "ordered":
                    continue
                if common and (one.guarantee == "total") + (other.guarantee == "total") == totals:
                    both = frozenset((ident(one), ident(other)))
                    holders[both] = holders.get(both, 0) + 1
                    if made[ident(other)] < i:
                        found.append((i, j))
    return (pair for pair in found if holders[frozenset((ident(rows[pair[0]]), ident(rows[pair[1]])))] > 1)


@mutation("barrier")
def pass_a_barrier(rows: Rows, rng: random.Random) -> Rows | None:
    pair = pick(rng, [(i, j) for i, j in _bound(rows, 1) if rows[j].guarantee == "total"])
    return None if pair is None else renumbered(moved(rows, pair[0], pair[1]), rows[pair[0]].node)


@mutation("total")
def disagree_on_totals(rows: Rows, rng: random.Random) -> Rows | None:
    pair = pick(rng, list(_bound(rows, 2)))
    return None if pair is None else exchanged(rows, *pair)


@mutation("total")
def disagree_on_totals_without_keys(rows: Rows, rng: random.Random) -> Rows | None:
    pair = pick(rng, [(i, j) for i, j in _bound(rows, 2) if not rows[i].keys and not rows[j].keys])
    return None if pair is None else exchanged(rows, *pair)


# -- places of totals -------------------------------------------------------------------------------------------------


def claimed(rows: Rows) -> dict[Id, int]:
    return {ident(row): row.tseq for row in rows if row.kind == "deliver" and row.tseq is not None}


def placed(rows: Rows, claims: dict[Id, int]) -> Rows:
    """With these places instead of those that were told."""
    return [
        change(row, tseq=claims[ident(row)]) if row.kind == "deliver" and ident(row) in claims else row for row in rows
    ]


@mutation("tseq")
def give_a_place_to_two(rows: Rows, rng: random.Random) -> Rows | None:
    claims = claimed(rows)
    if len(claims) < 2:
        return None
    one, other = rng.sample(sorted(claims), 2)
    return placed(rows, {one: claims[other]})


@mutation("tseq")
def tell_one_subscriber_another_place(rows: Rows, rng: random.Random) -> Rows | None:
    told = [i for i in places(rows, "deliver") if rows[i].tseq is not None]
    ids = [ident(rows[i]) for i in told]
    i = pick(rng, [i for i in told if ids.count(ident(rows[i])) > 1])
    return None if i is None else [*rows[:i], change(rows[i], tseq=1_000_000), *rows[i + 1 :]]


@mutation("tseq")
def claim_places_against_the_order(rows: Rows, rng: random.Random) -> Rows | None:
    pair = pick(rng, [(i, j) for i, j in _bound(rows, 2) if rows[i].tseq is not None])
    if pair is None:
        return None
    claims, (one, other) = claimed(rows), (ident(rows[n]) for n in pair)
    return placed(rows, {one: claims[other], other: claims[one]})


# -- receipts ---------------------------------------------------------------------------------------------------------


@mutation("receipt")
def receipt_for_nothing(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "receipt"))
    return None if i is None else [*rows[:i], change(rows[i], seq=1_000_000), *rows[i + 1 :]]


@mutation("receipt")
def receipt_before_publishing(rows: Rows, rng: random.Random) -> Rows | None:
    made = publications(rows)
    i = pick(rng, places(rows, "receipt"))
    return None if i is None else moved(rows, i, made[ident(rows[i])])


@mutation("receipt")
def take_a_receipt_back(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for i in places(rows, "receipt") if rows[i].receipt in ("safe", "delivered")])
    return None if i is None else [*rows[: i + 1], change(rows[i], receipt="accepted"), *rows[i + 1 :]]


@mutation("receipt")
def say_delivered_too_early(rows: Rows, rng: random.Random) -> Rows | None:
    told = {ident(rows[i]): i for i in places(rows, "receipt") if rows[i].receipt == "delivered"}
    i = pick(rng, [i for i in owed_deliveries(rows) if ident(rows[i]) in told])
    return None if i is None else moved(rows, told[ident(rows[i])], i)


@mutation("receipt")
def keep_the_last_receipt_back(rows: Rows, rng: random.Random) -> Rows | None:
    if any(row.kind in ("crash", "leave", "freeze", "unsubscribe") for row in rows):
        return None
    i = pick(rng, [i for i in places(rows, "receipt") if rows[i].receipt == "delivered"])
    return None if i is None else [*rows[:i], *rows[i + 1 :]]


@mutation("receipt")
def deliver_what_was_refused(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for here in deliveries(rows).values() for i in here])
    if i is None:
        return None
    made = rows[publications(rows)[ident(rows[i])]]
    no = Row(
        time_us=rows[i].time_us, node=made.node, kind="refused", publisher=made.publisher, seq=made.seq,
        incarnation=made.incarnation, stream=made.stream,
    )  # fmt: skip
    return [*rows[:i], no, *rows[i:]]


APART = (("kv_", "retained"), ("early", "expired"), "log_", "durable", "bank")
"""Beginnings of rules whose mutations take traces of their own."""
MUTATIONS: dict[str, tuple[str, Mutation]] = dict(
    sorted(REGISTERED.items(), key=lambda one: [one[1][0].startswith(apart) for apart in APART])
)
"""By name: the rule that must notice, and the mutation. Those of the bank, of durable subscriptions, of logs
of last values and of times come last: cases are drawn in this order."""
