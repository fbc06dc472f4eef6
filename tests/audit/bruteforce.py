"""The definitions, checked pair by pair, with no thought of speed and no code of the judge.

`findings(rows, promise)` gives what is wrong with a trace as a set of plain tuples, one for each thing that the judge
reports. It understands conditions of the form `amount > N` only, and expects rows in order of time.
"""

from itertools import product
from typing import Any

from resprout.core.promises import OrderScope, Promises, Reliability
from resprout.trace.schema import Row

Id = tuple[Any, ...]
Finding = tuple[Any, ...]


def ident(row: Row) -> Id:
    return (row.publisher, row.incarnation, row.stream, row.seq)


class World:
    def __init__(self, rows: list[Row], promise: Promises = Promises()) -> None:  # noqa: B008
        self.rows = rows
        self.by_topic = promise.order is OrderScope.EACH_TOPIC
        self.probable = promise.reliability is Reliability.PROBABLE
        self.given = promise.receipts
        self.published: dict[Id, int] = {}
        for i, row in enumerate(rows):
            if row.kind == "publish" and ident(row) not in self.published:
                self.published[ident(row)] = i
        self.observed = ("publish", "deliver", "subscribe", "subscribed", "unsubscribe", "unsubscribed", "applied")
        self.life_of = {i: self._life(i) for i, row in enumerate(rows) if self._of_client(row)}
        self.lives = sorted(set(self.life_of.values()))
        self.delivered: dict[tuple[str, int], list[int]] = {life: [] for life in self.lives}
        for i, row in enumerate(rows):
            if row.kind == "deliver":
                self.delivered[self.life_of[i]].append(i)
        self.subscriptions = {life: self._subscriptions(life) for life in self.lives}

    def _of_client(self, row: Row) -> bool:
        return row.kind in self.observed or (row.kind == "refused" and row.filter is not None and row.publisher is None)

    def _life(self, i: int) -> tuple[str, int]:
        """The client, and how many of its lives ended before: a crash ends a life only if it had begun."""
        node = self.rows[i].node
        ends, begun = 0, False
        for row in self.rows[:i]:
            if row.node == node:
                if row.kind in ("crash", "leave"):
                    ends += begun
                    begun = False
                elif self._of_client(row):
                    begun = True
        return (node, ends)

    def begin_of(self, life: tuple[str, int]) -> int:
        return min(i for i, other in self.life_of.items() if other == life)

    def end_of(self, life: tuple[str, int]) -> float:
        begin = self.begin_of(life)
        ends = [i for i, r in enumerate(self.rows) if r.node == life[0] and r.kind in ("crash", "leave") and i > begin]
        return min(ends, default=float("inf"))

    def frozen_at(self, life: tuple[str, int], i: int) -> bool:
        frozen = False
        for row in self.rows[self.begin_of(life) + 1 : int(min(i + 1, self.end_of(life)))]:
            if row.node == life[0] and row.kind in ("freeze", "unfreeze"):
                frozen = row.kind == "freeze"
        return frozen

    def correct(self, life: tuple[str, int]) -> bool:
        return self.end_of(life) == float("inf") and not self.frozen_at(life, len(self.rows))

    def _subscriptions(self, life: tuple[str, int]) -> list[dict[str, Any]]:
        """Each with the rows of its steps; see `audit.subscriptions` for what the steps mean."""
        known: list[dict[str, Any]] = []
        never = float("inf")
        for i, row in enumerate(self.rows):
            if row.kind == "session_lost" and row.node == life[0] and self.begin_of(life) < i < self.end_of(life):
                over = [s for s in known if s["confirmed"] < never and s["ending"] == never]
                for s in over:
                    s["ending"] = s["ended"] = i
                    known.append({**s, "asked": i, "confirmed": never, "ending": never, "ended": never, "repeats": 0})
                continue
            if self.life_of.get(i) != life or row.filter is None:
                continue
            same = [s for s in known if s["name"] == (row.filter, row.where) and s["ended"] == never]
            lasting = [s for s in same if s["ending"] == never]
            fresh = {"name": (row.filter, row.where), "asked": i, "confirmed": never, "ending": never, "ended": never}
            fresh["repeats"] = 0
            if row.kind == "subscribe" and not lasting:
                known.append(fresh)
            elif row.kind == "subscribe":
                lasting[0]["repeats"] += 1
            elif row.kind == "subscribed":
                waiting = [s for s in same if s["confirmed"] == never]
                if waiting:
                    waiting[0]["confirmed"] = i
                elif not lasting:
                    known.append({**fresh, "confirmed": i})
            elif row.kind == "unsubscribe":
                for s in lasting:
                    s["ending"] = i
            elif row.kind == "unsubscribed" and same:
                s = next((s for s in same if s["ending"] < never), same[0])
                s["ending"], s["ended"] = min(s["ending"], i), i
            elif row.kind == "refused" and lasting:
                if lasting[0]["repeats"]:
                    lasting[0]["repeats"] -= 1
                elif lasting[0]["confirmed"] == never:
                    lasting[0]["ending"] = lasting[0]["ended"] = i
        return known

    def all_deliveries(self) -> list[tuple[tuple[str, int], int]]:
        return [(life, i) for life in self.lives for i in self.delivered[life]]

    # -- matching ------------------------------------------------------------------------------------------------------

    def asked(self, subscription: dict[str, Any], id: Id) -> bool:
        row = self.rows[self.published[id]]
        filter_, where = subscription["name"]
        topics = [row.topic or "", *(key.partition("#")[0] for key in row.keys or () if "#" in key)]
        if not any(level_match(filter_.split("/"), topic.split("/")) for topic in topics):
            return False
        if where is None:
            return True
        amount = (row.attributes or {}).get("amount")
        return amount is not None and int(amount) > int(where.removeprefix("amount > "))

    def due_until(self, life: tuple[str, int], id: Id) -> float:
        """The row until which it is due there; -1 when it never is."""
        p = self.published[id]
        until = [
            s["ending"]
            for s in self.subscriptions[life]
            if s["confirmed"] < p < min(s["ending"], self.end_of(life)) and self.asked(s, id)
        ]
        return max(until, default=-1)

    def owed(self, id: Id) -> bool:
        def told(*words: str) -> bool:
            return any(r.kind == "receipt" and ident(r) == id and r.receipt in words for r in self.rows)

        if any(r.kind == "refused" and ident(r) == id for r in self.rows):
            return False
        if told("safe", "delivered"):
            return True
        if any(self.correct(life) and self.place(life, id) is not None for life in self.lives):
            return True
        return self.correct(self.life_of[self.published[id]]) and not told("failed")

    # -- order ---------------------------------------------------------------------------------------------------------

    def first(self, life: tuple[str, int], id: Id) -> int | None:
        """The row of the first sound delivery."""
        if id not in self.published:
            return None
        return next((i for i in self.delivered[life] if ident(self.rows[i]) == id and i > self.published[id]), None)

    def place(self, life: tuple[str, int], id: Id) -> tuple[int, int] | None:
        """(position, row): what decides the order at a subscriber."""
        i = self.first(life, id)
        return None if i is None else (self.rows[i].position or 0, i)

    def ever(self, life: tuple[str, int], id: Id) -> bool:
        return any(ident(self.rows[i]) == id for i in self.delivered[life])

    def direct(self, id: Id) -> set[Id]:
        """The client's previous ordered publication, and what ordered ones its life was given since."""
        p = self.published[id]
        life = self.life_of[p]
        before = [
            q
            for other, q in self.published.items()
            if q < p and self.rows[q].publisher == id[0] and other[2] == "ordered" and self.in_order(id, other)
        ]
        since = max(before, default=-1)
        found = {ident(self.rows[since])} if before else set()
        for i in self.delivered[life]:
            other = ident(self.rows[i])
            if (
                since < i < p
                and other[2] == "ordered"
                and self.first(life, other) is not None
                and self.in_order(id, other)
                and i > self.published[other]
            ):
                found.add(other)
        return found

    def past(self, id: Id) -> set[Id]:
        found: set[Id] = set()
        todo = [id]
        while todo:
            for d in self.direct(todo.pop()):
                if d not in found:
                    found.add(d)
                    todo.append(d)
        return found

    def topic(self, id: Id) -> str:
        return self.rows[self.published[id]].topic or ""

    def in_order(self, a: Id, b: Id) -> bool:
        """Whether the two can be in any order with each other."""
        return not self.by_topic or self.topic(a) == self.topic(b)

    def pairs(self, id: Id) -> set[tuple[str, str]]:
        """Those that it is bound by."""
        split = [key.partition("#") for key in self.rows[self.published[id]].keys or ()]
        named = {(topic, rest) if sign else (self.topic(id), topic) for topic, sign, rest in split}
        return {pair for pair in named if pair[0] == self.topic(id)} if self.by_topic else named

    def lines(self, id: Id) -> set[tuple[str, str]]:
        """Pairs on which totals are in order; those without keys are so in their topic."""
        is_keyless = self.guarantee(id) == "total" and not self.rows[self.published[id]].keys
        return self.pairs(id) | ({(self.topic(id), "")} if is_keyless else set())

    def told(self, life: tuple[str, int], id: Id) -> int | None:
        """The place of a total, as its first sound delivery there says."""
        i = self.first(life, id)
        return None if i is None else self.rows[i].tseq

    def guarantee(self, id: Id) -> str:
        return self.rows[self.published[id]].guarantee or ""


def level_match(wanted: list[str], levels: list[str]) -> bool:
    if wanted == ["#"]:
        return True
    if not wanted or not levels:
        return not wanted and not levels
    return wanted[0] in ("+", levels[0]) and (
        level_match(wanted[1:], levels[1:]) or (wanted[1:] == ["#"] and not levels[1:])
    )


def findings(rows: list[Row], promise: Promises = Promises()) -> set[Finding]:  # noqa: B008
    w = World(rows, promise)
    return {
        *_identity(w), *_presence(w), *_positions(w), *_lost(w), *_fifo(w), *_causal(w), *_totals(w), *_barrier(w),
        *_places(w), *_receipts(w), *_never_told(w),
    }  # fmt: skip


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
        have = all(w.correct(life) and w.due_until(life, id) == float("inf") and w.ever(life, id) for life in due)
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
    return {
        ("receipt", life[0], id, w.rows[i].time_us)
        for life in w.lives
        if w.correct(life)
        and w.due_until(life, id) > i
        and not any(w.frozen_at(life, j) for j in range(w.published[id], i + 1))
        and not any(j < i and ident(w.rows[j]) == id for j in w.delivered[life])
    }
