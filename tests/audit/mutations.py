"""Ways to spoil a good trace, each with the rule that must notice.

A mutation takes the rows of a correct run (from the model here, or from a simulator) and a source of choices, and
returns spoiled rows, or None when the trace has no place for it. Each does one thing and keeps the rest plausible:
positions stay dense and times in order, so that only the rule it aims at has a reason to complain, and rules that
follow from it.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from resprout.core.keys import Pair, pairs_of, topics_of
from resprout.filters.topics import topic_matches
from resprout.trace.schema import Row

Rows = list[Row]
Id = tuple[Any, ...]
Mutation = Callable[[Rows, random.Random], Rows | None]
MUTATIONS: dict[str, tuple[str, Mutation]] = {}
"""By name: the rule that must notice, and the mutation."""

MESSAGE = ("publisher", "incarnation", "stream", "seq", "topic", "keys", "guarantee", "tseq")
"""Columns of a deliver row that say what was delivered."""


def mutation(rule: str) -> Callable[[Mutation], Mutation]:
    def register(function: Mutation) -> Mutation:
        MUTATIONS[function.__name__] = (rule, function)
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


# -- bank -------------------------------------------------------------------------------------------------------------


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
