"""Ways to spoil what the replicas of logs hold, and what clients read of them; see `mutations`."""

import random
from collections.abc import Callable, Mapping

from resprout.audit.history import UNREST
from resprout.trace.schema import Row
from tests.audit.spoiling import MESSAGE, Rows, change, ident, lines, mutation, pick, places

KEPT = ("log_kept", "log_read")
WHOLE = ("all", "bank")
BOTH = ("b0", "b2")
Place = tuple[str, int]
"""A log, and an offset."""


def _about(row: Row) -> dict[str, str]:
    return row.attributes or {}


def _log(row: Row) -> str:
    return _about(row).get("log", "")


def _line(rows: Rows, log: str) -> dict[int, Row]:
    """By offset, what the replicas have."""
    return {row.position or 0: row for row in rows if row.kind == "log_kept" and _log(row) == log}


def _replaced(rows: Rows, log: str, others: Mapping[int, Row], where: Callable[[Row], bool] = lambda row: True) -> Rows:
    """With other messages at these offsets, at all replicas and readers or at some."""
    fresh = []
    for row in rows:
        other = others.get(row.position or 0) if row.kind in KEPT and _log(row) == log and where(row) else None
        if other is not None:
            columns = {name: getattr(other, name) for name in MESSAGE}
            row = change(row, **columns, attributes={**_about(row), "crc": _about(other)["crc"]})
        fresh.append(row)
    return fresh


def _exchanged(rows: Rows, log: str, one: int, other: int, where: Callable[[Row], bool] = lambda row: True) -> Rows:
    line = _line(rows, log)
    return _replaced(rows, log, {one: line[other], other: line[one]}, where)


def _pairs(rows: Rows, is_wrong: Callable[[Row, Row], bool], apart: int = 40) -> list[tuple[str, int, int]]:
    """Offsets of two messages, the first before the second."""
    return [
        (log, one, other)
        for log in WHOLE
        for line in [_line(rows, log)]
        for one in line
        for other in range(one + 1, one + apart)
        if other in line and is_wrong(line[one], line[other])
    ]


def _shared(rows: Rows) -> set[Place]:
    """What replicas have that come before and after b1, and readers may have read."""
    held = [{(_log(row), row.position or 0) for row in rows if row.kind == "log_kept" and row.node == b} for b in BOTH]
    return held[0] & held[1]


def _ends_at(rows: Rows, log: str) -> int:
    return max(int(_about(row)["end"]) for row in rows if row.kind == "log_end" and _log(row) == log)


def _appended(rows: Rows, log: str, like: Row) -> Rows:
    """With one message more at the end of each replica."""
    end = _ends_at(rows, log)
    fresh = []
    for row in rows:
        if row.kind == "log_end" and _log(row) == log:
            about = {"log": log, "crc": _about(like)["crc"]}
            fresh.append(
                change(like, kind="log_kept", node=row.node, time_us=row.time_us, position=end, attributes=about)
            )
            row = change(row, attributes={**_about(row), "end": str(end + 1)})
        fresh.append(row)
    return fresh


# -- what a replica keeps ---------------------------------------------------------------------------------------------


@mutation("log_kept")
def keep_what_nobody_published(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "log_kept"))
    return None if i is None else _appended(rows, _log(rows[i]), change(rows[i], seq=1_000_000))


@mutation("log_kept")
def keep_twice(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for i in places(rows, "log_kept") if rows[i].guarantee == "eventual"])
    if i is None or any(row.position == rows[i].position and int(_about(row).get("first", 0)) for row in rows):
        return None
    return _appended(rows, _log(rows[i]), rows[i])


@mutation("log_kept")
def keep_what_does_not_match(rows: Rows, rng: random.Random) -> Rows | None:
    there = {ident(row) for row in _line(rows, "bank").values()}
    found = [i for i in places(rows, "log_kept") if _log(rows[i]) == "all" and rows[i].topic == "news"]
    i = pick(rng, [i for i in found if not rows[i].keys and ident(rows[i]) not in there])
    return None if i is None else _appended(rows, "bank", rows[i])


@mutation("log_kept")
def keep_a_hole(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for i in places(rows, "log_kept") if rows[i].node == "b1"])
    return None if i is None else [*rows[:i], *rows[i + 1 :]]


def _last_of_keys(rows: Rows) -> dict[tuple[object, object], int]:
    """Offset of the last message of each key in the compacted log, whether it was dropped or not."""
    there = [row for row in rows if row.kind in ("log_kept", "log_compacted") and _log(row) == "last"]
    return {(row.topic, row.keys): row.position or 0 for row in sorted(there, key=lambda row: row.position or 0)}


@mutation("log_kept")
def drop_the_last_of_a_key(rows: Rows, rng: random.Random) -> Rows | None:
    """At one replica, which notes it as if a later one were there."""
    ends = {row.node: int(_about(row)["compacted"]) for row in rows if row.kind == "log_end" and _log(row) == "last"}
    last = _last_of_keys(rows)
    kept = [i for i in places(rows, "log_kept") if _log(rows[i]) == "last"]
    i = pick(rng, [i for i in kept if (at := rows[i].position or 0) in last.values() and at < ends[rows[i].node]])
    if i is None:
        return None
    about = {**_about(rows[i]), "at": "0", "until": "0"}
    return [*rows[:i], change(rows[i], kind="log_compacted", attributes=about), *rows[i + 1 :]]


@mutation("log_kept")
def drop_a_young_tombstone(rows: Rows, rng: random.Random) -> Rows | None:
    graces = [int(_about(row)["grace"]) for row in rows if row.kind == "log_declared" and "grace" in _about(row)]
    last = _last_of_keys(rows)
    found = [i for i in places(rows, "log_compacted") if "empty" in _about(rows[i])]
    i = pick(rng, [i for i in found if last.get((rows[i].topic, rows[i].keys), -1) <= (rows[i].position or 0)])
    if i is None or not graces or not graces[0]:
        return None
    at = rows[i].position
    return [
        change(row, attributes={**_about(row), "until": _about(row)["at"]})
        if row.kind == "log_compacted" and row.position == at
        else row
        for row in rows
    ]


@mutation("log_kept")
def drop_without_a_note(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "log_compacted"))
    if i is None:
        return None
    at = rows[i].position
    return [row for row in rows if row.kind != "log_compacted" or row.position != at]


# -- what is missing --------------------------------------------------------------------------------------------------


@mutation("log_complete")
def lose_from_a_log(rows: Rows, rng: random.Random) -> Rows | None:
    """At all replicas, which have the next messages at its offset."""
    if any(row.kind in ("freeze", "cut", "partition") for row in rows) or rows[-1].kind != "quiescent":
        return None
    shaken = {row.node for row in rows if row.kind in ("crash", "leave")}
    failed = {ident(row) for row in rows if row.receipt == "failed"}
    first = {_log(row): 0 for row in rows if row.kind == "log_end"}
    for row in rows:
        if row.kind == "log_end":
            first[_log(row)] += int(_about(row)["first"])
    kept = [i for i in places(rows, "log_kept") if rows[i].publisher not in shaken and not first[_log(rows[i])]]
    i = pick(rng, [i for i in kept if ident(rows[i]) not in failed])
    if i is None:
        return None
    log, lost = _log(rows[i]), rows[i].position or 0
    fresh = []
    for row in rows:
        if row.kind in (*KEPT, "log_page", "log_end") and _log(row) == log:
            if row.kind == "log_page" or (row.position == lost and row.kind in KEPT) or row.kind == "log_read":
                continue
            if row.kind == "log_end":
                row = change(row, attributes={**_about(row), "end": str(int(_about(row)["end"]) - 1)})
            elif (row.position or 0) > lost:
                row = change(row, position=(row.position or 0) - 1)
        fresh.append(row)
    return fresh


@mutation("log_complete")
def end_early_at_a_replica(rows: Rows, rng: random.Random) -> Rows | None:
    if any(row.kind in ("freeze", "cut", "partition") for row in rows):
        return None
    i = pick(rng, [i for i in places(rows, "log_kept") if rows[i].position == _ends_at(rows, _log(rows[i])) - 1])
    if i is None or rows[i].position == 0:
        return None
    log, node = _log(rows[i]), rows[i].node
    fresh = [*rows[:i], *rows[i + 1 :]]
    return [
        change(row, attributes={**_about(row), "end": str(rows[i].position)})
        if row.kind == "log_end" and row.node == node and _log(row) == log
        else row
        for row in fresh
    ]


# -- what differs -----------------------------------------------------------------------------------------------------


@mutation("log_same")
def exchange_at_a_replica(rows: Rows, rng: random.Random) -> Rows | None:
    pair = pick(rng, _pairs(rows, lambda one, other: True, apart=4))
    if pair is None:
        return None
    log, one, other = pair
    there = {(log, one), (log, other)} <= _shared(rows)
    return _exchanged(rows, log, one, other, lambda row: row.node == "b2") if there else None


@mutation("log_same")
def keep_other_bytes(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, _at_b2(rows))
    return None if i is None else _changed(rows, i, attributes={**_about(rows[i]), "crc": "other"})


@mutation("log_same")
def read_other_bytes(rows: Rows, rng: random.Random) -> Rows | None:
    shared = _shared(rows)
    i = pick(rng, [i for i in places(rows, "log_read") if (_log(rows[i]), rows[i].position) in shared])
    return None if i is None else _changed(rows, i, attributes={**_about(rows[i]), "crc": "other"})


@mutation("log_same")
def keep_another_place_of_a_total(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for i in _at_b2(rows) if rows[i].tseq is not None])
    return None if i is None else _changed(rows, i, tseq=(rows[i].tseq or 0) + 1_000)


@mutation("log_same")
def mark_a_gap_at_one_replica(rows: Rows, rng: random.Random) -> Rows | None:
    shaken = [i for i, row in enumerate(rows) if row.kind in UNREST and row.time_us < rows[-1].time_us]
    i = pick(rng, [i for i in places(rows, "log_kept") if rows[i].node == "b2"])
    if i is None or not shaken or (rows[i].position or 0) < 1:
        return None
    if any(
        _about(row).get("first", "0") != "0" for row in rows if row.kind == "log_end" and _log(row) == _log(rows[i])
    ):
        return None
    mark = change(rows[i], kind="log_gap", detail="lost", attributes={"log": _log(rows[i])})
    return [*rows[: i + 1], mark, *rows[i + 1 :]]


def _at_b2(rows: Rows) -> list[int]:
    """What another replica has, too."""
    shared = _shared(rows)
    kept = [i for i in places(rows, "log_kept") if rows[i].node == "b2"]
    return [i for i in kept if (_log(rows[i]), rows[i].position) in shared]


def _changed(rows: Rows, i: int, **columns: object) -> Rows:
    return [*rows[:i], change(rows[i], **columns), *rows[i + 1 :]]


# -- order ------------------------------------------------------------------------------------------------------------


@mutation("log_order")
def exchange_in_a_log(rows: Rows, rng: random.Random) -> Rows | None:
    """Two of one client."""

    def is_bound(one: Row, other: Row) -> bool:
        return one.publisher == other.publisher and one.stream == other.stream == "ordered"

    pair = pick(rng, _pairs(rows, is_bound))
    return None if pair is None else _exchanged(rows, *pair)


@mutation("log_order")
def keep_before_its_cause(rows: Rows, rng: random.Random) -> Rows | None:
    """Its client was given the other one before it published it."""
    given = {(row.node, ident(row)): i for i, row in enumerate(rows) if row.kind == "deliver"}
    made = {ident(row): i for i, row in enumerate(rows) if row.kind == "publish"}
    born = {node: [i for i, row in enumerate(rows) if row.node == node and row.kind == "crash"] for node, _ in given}

    def depends(one: Row, other: Row) -> bool:
        at, then = given.get((other.publisher or "", ident(one))), made[ident(other)]
        is_bound = one.stream == "ordered" and other.guarantee in ("causal", "total")
        lives_on = at is not None and not any(at < i < then for i in born.get(other.publisher or "", ()))
        return is_bound and at is not None and made[ident(one)] < at < then and lives_on

    pair = pick(rng, _pairs(rows, depends))
    return None if pair is None else _exchanged(rows, *pair)


@mutation("log_order")
def exchange_totals_in_a_log(rows: Rows, rng: random.Random) -> Rows | None:
    told = {ident(row) for row in rows if row.kind == "deliver" and row.tseq is not None}

    def is_bound(one: Row, other: Row) -> bool:
        known = ident(one) in told and ident(other) in told
        return known and one.guarantee == other.guarantee == "total" and bool(lines(one) & lines(other))

    pair = pick(rng, _pairs(rows, is_bound))
    return None if pair is None else _exchanged(rows, *pair)


@mutation("log_order")
def keep_on_the_other_side_of_a_total(rows: Rows, rng: random.Random) -> Rows | None:
    """Than a subscriber that had both."""
    given: dict[str, list[Row]] = {}
    for row in rows:
        if row.kind == "deliver":
            given.setdefault(row.node, []).append(row)
        elif row.kind == "crash":
            given.pop(row.node, None)
    before = {
        (ident(one), ident(other))
        for mine in given.values()
        for n, one in enumerate(mine)
        for other in mine[n + 1 :]
        if lines(one) & lines(other)
    }

    def is_bound(one: Row, other: Row) -> bool:
        is_total = other.guarantee == "total" and other.tseq is not None and one.guarantee in ("fifo", "causal")
        return is_total and (ident(one), ident(other)) in before

    pair = pick(rng, _pairs(rows, is_bound))
    return None if pair is None else _exchanged(rows, *pair)


@mutation("log_order")
def keep_a_total_at_a_wrong_place(rows: Rows, rng: random.Random) -> Rows | None:
    told = {ident(row) for row in rows if row.kind == "deliver" and row.tseq is not None}
    i = pick(rng, [i for i in places(rows, "log_kept") if ident(rows[i]) in told])
    if i is None:
        return None
    log, position = _log(rows[i]), rows[i].position
    return [
        change(row, tseq=(row.tseq or 0) + 1_000)
        if row.kind in KEPT and _log(row) == log and row.position == position
        else row
        for row in rows
    ]


# -- gaps, and reads --------------------------------------------------------------------------------------------------


@mutation("log_gap")
def mark_a_gap_though_nothing_failed(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "log_end"))
    if i is None or any(row.kind in UNREST for row in rows):
        return None
    log, end = _log(rows[i]), _ends_at(rows, _log(rows[i]))
    fresh = []
    for row in rows:
        if row.kind == "log_end" and _log(row) == log:
            mark = change(row, kind="log_gap", position=end, detail="lost", attributes={"log": log})
            row = change(row, attributes={**_about(row), "end": str(end + 1)})
            fresh.append(mark)
        fresh.append(row)
    return fresh


@mutation("log_read")
def lose_from_a_page(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "log_read"))
    return None if i is None else [*rows[:i], *rows[i + 1 :]]


@mutation("log_read")
def read_backwards(rows: Rows, rng: random.Random) -> Rows | None:
    reads = [i for i in places(rows, "log_read") if rows[i + 1].kind == "log_read" and rows[i + 1].node == rows[i].node]
    i = pick(rng, reads)
    return None if i is None else [*rows[:i], rows[i + 1], rows[i], *rows[i + 2 :]]


@mutation("log_read")
def read_what_was_not_asked_for(rows: Rows, rng: random.Random) -> Rows | None:
    pages = [
        i for i in places(rows, "log_page") if rows[i - 1].kind == "log_read" and rows[i].filter in ("#", "bank/#")
    ]
    i = pick(rng, [i for i in pages if rows[i - 1].topic != "bank/fr" and not rows[i - 1].keys])
    return None if i is None else _changed(rows, i, filter="bank/fr")
