"""The definitions, checked pair by pair, with no thought of speed and no code of the judge.

`findings(rows, promise, clocks_us)` gives what is wrong with a trace as a set of plain tuples, one for each thing that
the judge reports. It understands conditions of the form `amount > N` only, and expects rows in order of time.
"""

from itertools import product

from resprout.core.guarantee import Promises
from resprout.trace.schema import Row
from tests.audit.bruteforce_world import Finding, Id, World, ident

CLOCKS_US = 1_000_000
"""By how much clocks may differ, unless a test says otherwise."""


def findings(rows: list[Row], promise: Promises = Promises(), clocks_us: int = CLOCKS_US) -> set[Finding]:  # noqa: B008
    w = World(rows, promise)
    return {
        *_identity(w), *_presence(w), *_positions(w), *_lost(w), *_fifo(w), *_causal(w), *_totals(w), *_barrier(w),
        *_places(w), *_receipts(w), *_never_told(w), *_times(w, clocks_us), *_mqtt(w),
    }  # fmt: skip


def _mqtt(w: World) -> set[Finding]:
    """MQTT sessions that vanish, and messages with QoS 2 that come twice."""
    found: set[Finding] = set()
    for i, row in enumerate(w.rows):
        about = row.attributes or {}
        if row.kind == "handed" and about.get("qos") == "2":
            if any(
                r.kind == "handed" and ident(r) == ident(row)
                and (r.attributes or {}).get("qos") == "2"
                and (r.attributes or {}).get("durable") == about["durable"]
                for r in w.rows[:i]
            ):  # fmt: skip
                found.add(("mqtt_twice", row.node, ident(row), row.time_us))
        elif row.kind == "mqtt_connected" and about.get("session") == "new":
            ends = [j for j in range(i) if w.rows[j].node == row.node and w.rows[j].kind in ("crash", "leave")]
            since = max(ends, default=-1)
            if any(r.node == row.node and r.kind == "mqtt_connected" for r in w.rows[since + 1 : i]):
                found.add(("mqtt_session", row.node, ("", 0, "", 0), row.time_us))
    return found


def _identity(w: World) -> set[Finding]:
    found: set[Finding] = set()
    for i, row in enumerate(w.rows):
        if row.kind != "publish":
            continue
        if w.published[ident(row)] < i:
            found.add(("identity", row.publisher, ident(row), row.time_us))
            continue
        for other, q in w.published.items():
            same = other[0] == row.publisher and other[2] == row.stream
            if same and q < i and (other[1], other[3]) > (row.incarnation, row.seq):
                found.add(("identity", row.publisher, ident(row), row.time_us))
    return found


def _presence(w: World) -> set[Finding]:
    found: set[Finding] = set()
    for life, i in w.all_deliveries():
        row, id = w.rows[i], ident(w.rows[i])
        p = w.published.get(id)
        same = p is not None and (row.topic, row.guarantee, row.keys or ()) == (
            w.rows[p].topic, w.rows[p].guarantee, w.rows[p].keys or (),
        )  # fmt: skip
        if p is None or p > i or not same:
            found.add(("invented", life[0], id, row.time_us))
        if p is None:
            continue
        if any(j < i and ident(w.rows[j]) == id for j in w.delivered[life]):
            found.add(("twice", life[0], id, row.time_us))
        elif not any(s["asked"] < i < s["ended"] and w.asked(s, id) for s in w.subscriptions[life]):
            found.add(("unasked", life[0], id, row.time_us))
        if w.told_expired(life, id) < i:
            found.add(("twice", life[0], id, row.time_us))
    return found


def _positions(w: World) -> set[Finding]:
    found: set[Finding] = set()
    for life in w.lives:
        for before, i in zip([None, *w.delivered[life]], w.delivered[life], strict=False):
            expected = 0 if before is None else (w.rows[before].position or 0) + 1
            if w.rows[i].position != expected:
                found.add(("position", life[0], ident(w.rows[i]), w.rows[i].time_us))
    return found


def _lost(w: World) -> set[Finding]:
    ends = [row.kind for row in w.rows if row.kind in ("quiescent", "timeout")]
    if not ends or ends[-1] != "quiescent" or w.probable:
        return set()
    found: set[Finding] = set()
    for id, life in product(w.published, w.lives):
        until = w.due_until(life, id)
        if w.correct(life) and until >= 0 and w.owed(id) and not w.ever(life, id):
            if until == float("inf"):
                found.add(("lost", life[0], id, w.rows[w.published[id]].time_us))
            elif w.rows[int(until)].kind == "session_lost":
                found.add(("lost_told", life[0], id, w.rows[w.published[id]].time_us))
    return found


def _before(w: World, life: tuple[str, int], a: Id, b: Id) -> bool:
    x, y = w.place(life, a), w.place(life, b)
    return x is not None and y is not None and x < y


def _fifo(w: World) -> set[Finding]:
    found: set[Finding] = set()
    for life, a, b in product(w.lives, w.published, w.published):
        ordered = a[2] == b[2] == "ordered" and a[0] == b[0] and (a[1], a[3]) < (b[1], b[3]) and w.in_order(a, b)
        if ordered and _before(w, life, b, a):
            found.add(("fifo", life[0], a, w.rows[w.first(life, a) or 0].time_us))
    return found


def _causal(w: World) -> set[Finding]:
    found: set[Finding] = set()
    pasts = {id: w.past(id) for id in w.published if w.guarantee(id) in ("causal", "total")}
    for life, (m, past) in product(w.lives, pasts.items()):
        i = w.first(life, m)
        if i is None:
            continue
        for d in past:
            j = w.first(life, d)
            if j is not None:
                wrong = (w.rows[j].position or 0) > (w.rows[i].position or 0)
            else:
                wrong = not w.probable and not w.ever(life, d) and w.owed(d) and w.due_until(life, d) > i
            if wrong:
                found.add(("causal", life[0], m, w.rows[i].time_us))
    return found


def _reach(w: World, totals: list[Id], pairs: set[tuple[str, str]] | None) -> dict[Id, set[Id]]:
    """For each total, itself and the totals ordered after it: seen so by a subscriber, or by a chain."""
    reach = {t: {t} for t in totals}
    for life, a, b in product(w.lives, totals, totals):
        common = w.lines(a) & w.lines(b) & (pairs or w.lines(a))
        if common and _before(w, life, a, b):
            reach[a].add(b)
    for k, a in product(totals, totals):
        if k in reach[a]:
            reach[a] |= reach[k]
    return reach


def _totals(w: World) -> set[Finding]:
    """Each set of totals that are before and after each other."""
    totals = [id for id in w.published if w.guarantee(id) == "total"]
    reach = _reach(w, totals, None)
    knots = {frozenset(b for b in totals if b in reach[a] and a in reach[b]) for a in totals}
    return {("total", knot) for knot in knots if len(knot) > 1}


def _barrier(w: World) -> set[Finding]:
    found: set[Finding] = set()
    totals = [id for id in w.published if w.guarantee(id) == "total"]
    for pair in sorted({pair for t in totals for pair in w.pairs(t)}):
        here = [t for t in totals if pair in w.pairs(t)]
        reach = _reach(w, here, {pair})
        if any(a != b and b in reach[a] and a in reach[b] for a, b in product(here, here)):
            continue
        others = [id for id in w.published if pair in w.pairs(id) and id not in here and id[2] == "ordered"]
        for x, one, other, t in product(others, w.lives, w.lives, here):
            if _before(w, one, x, t) and any(_before(w, other, u, x) for u in reach[t]):
                found.add(("barrier", x, pair))
    return found


def _places(w: World) -> set[Finding]:
    found: set[Finding] = set()
    totals = [id for id in w.published if w.guarantee(id) == "total"]
    claims: dict[Id, list[int]] = {
        t: [
            i
            for i, row in enumerate(w.rows)
            if row.kind == "deliver" and ident(row) == t and i > w.published[t] and row.tseq is not None
        ]
        for t in totals
    }
    for t in totals:
        others = [i for i in claims[t] if w.rows[i].tseq != w.rows[claims[t][0]].tseq]
        if others:
            found.add(("tseq", w.rows[others[0]].node, t, w.rows[others[0]].time_us))
        for other in totals:
            before = w.published[other] < w.published[t] and w.in_order(t, other)
            if before and claims[t] and claims[other] and w.rows[claims[t][0]].tseq == w.rows[claims[other][0]].tseq:
                found.add(("tseq", w.rows[claims[t][0]].node, t, w.rows[claims[t][0]].time_us))
    for life, a, b in product(w.lives, totals, totals):
        one, two = w.told(life, a), w.told(life, b)
        if w.lines(a) & w.lines(b) and _before(w, life, a, b) and one is not None and two is not None and one > two:
            found.add(("tseq", life[0], b, w.rows[w.first(life, b) or 0].time_us))
    return found


def _never_told(w: World) -> set[Finding]:
    """Last receipts that were due and never came."""
    ends = [row.kind for row in w.rows if row.kind in ("quiescent", "timeout")]
    if not ends or ends[-1] != "quiescent":
        return set()
    for node in {row.node for row in w.rows}:
        shakes = [r.kind for r in w.rows if r.node == node and r.kind in ("freeze", "unfreeze", "crash", "leave")]
        if shakes and shakes[-1] == "freeze":
            return set()
    found: set[Finding] = set()
    refused = [ident(row) for row in w.rows if row.kind == "refused" and row.publisher is not None]
    for id, p in w.published.items():
        words = {r.receipt for i, r in enumerate(w.rows) if r.kind == "receipt" and ident(r) == id and i > p}
        ever = {r.receipt for r in w.rows if r.kind == "receipt" and ident(r) == id}
        if not words & {"accepted", "safe"} or "delivered" in words or "failed" in ever or id in refused:
            continue
        due = [life for life in w.lives if w.due_until(life, id) >= 0]
        have = not any(r.kind == "mqtt_connected" and r.node == id[0] for r in w.rows)
        whole = [w.correct(life) and w.due_until(life, id) == float("inf") and w.ever(life, id) for life in due]
        have = have and all(whole)
        misses = ("delivered" in w.given and have) or ("safe" in w.given and "safe" not in words)
        if w.correct(w.life_of[p]) and misses:
            found.add(("receipt", id[0], id, w.rows[p].time_us))
    return found


def _receipts(w: World) -> set[Finding]:
    found: set[Finding] = set()
    steps = ["accepted", "safe", "delivered"]
    refused: dict[Id, int] = {}
    for i, row in enumerate(w.rows):
        if row.kind == "refused" and row.publisher is not None:
            refused.setdefault(ident(row), i)
    for i, row in enumerate(w.rows):
        if row.kind != "receipt":
            continue
        id = ident(row)
        valid = [
            r.receipt or ""
            for j, r in enumerate(w.rows[:i])
            if r.kind == "receipt" and ident(r) == id and r.receipt in steps and refused.get(id, i) >= j
            and w.published.get(id, i) < j
        ]  # fmt: skip
        highest = max((steps.index(word) for word in valid), default=-1)
        unfounded = w.published.get(id, i) >= i or refused.get(id, i) < i
        if unfounded or (row.receipt in steps and steps.index(row.receipt) < highest):
            found.add(("receipt", row.node, id, row.time_us))
        elif row.receipt == "delivered" and highest < 2:
            found |= _too_early(w, i, id)
    for life, i in w.all_deliveries():
        if ident(w.rows[i]) in refused:
            found.add(("receipt", life[0], ident(w.rows[i]), w.rows[i].time_us))
    return found


def _too_early(w: World, i: int, id: Id) -> set[Finding]:
    if w.is_delayed(id):
        return set()
    return {
        ("receipt", life[0], id, w.rows[i].time_us)
        for life in w.lives
        if w.correct(life)
        and w.due_until(life, id) > i
        and not any(w.frozen_at(life, j) for j in range(w.published[id], i + 1))
        and not any(j < i and ident(w.rows[j]) == id for j in w.delivered[life])
    }


def _times(w: World, clocks_us: int) -> set[Finding]:
    found: set[Finding] = set()
    for life, i in w.all_deliveries():
        now, id = w.rows[i].time_us, ident(w.rows[i])
        due, expires = w.times(id) if id in w.published else (0, float("inf"))
        if now + clocks_us < due:
            found.add(("early", life[0], id, now))
        if now - clocks_us >= expires:
            found.add(("expired", life[0], id, now))
    for row in w.rows:
        if row.kind == "expired":
            if ident(row) in w.published and w.has_unknown_expiry(ident(row)):
                continue
            _, expires = w.times(ident(row)) if ident(row) in w.published else (0, float("inf"))
            if row.time_us + clocks_us < expires:
                found.add(("expired", row.node, ident(row), row.time_us))
    return found
