"""The definitions about logs, checked offset by offset and pair by pair, without code of the judge: `bruteforce`."""

import zlib
from itertools import product
from typing import Any

from resprout.core.guarantee import Promises
from resprout.trace.schema import Row
from tests.audit.bruteforce_world import Finding, Id, World, ident, level_match

SHAKING = {
    "crash", "recover", "freeze", "unfreeze", "hang", "unhang", "join", "double", "leave", "cut", "heal", "partition",
    "repair_begin", "repair_end", "restart", "fenced", "durable",
}  # fmt: skip


def log_findings(rows: list[Row], promise: Promises = Promises()) -> set[Finding]:  # noqa: B008
    """(rule, who, the message or None), one for each thing that the judge reports."""
    w = World(rows, promise)
    names = dict.fromkeys(about(row)["log"] for row in rows if row.kind.startswith("log_"))
    found: set[Finding] = set()
    for name in names:
        log = OneLog(w, name)
        found |= {*_kept(log), *_same(log), *_gap(log), *_read(log), *_complete(log), *_order(log)}
    return found


def about(row: Row) -> dict[str, str]:
    return row.attributes or {}


class OneLog:
    def __init__(self, world: World, name: str) -> None:
        self.w, self.name = world, name
        self.rows = [i for i, row in enumerate(world.rows) if row.kind.startswith("log_") and about(row)["log"] == name]
        self.brokers = sorted({world.rows[i].node for i in self.of("log_kept", "log_gap", "log_end")})
        self.filter = next(world.rows[i].filter or "" for i in self.of("log_declared"))
        declared = about(next(world.rows[i] for i in self.of("log_declared")))
        self.part = int(declared.get("partition", "0")), int(declared.get("partitions", "1"))
        self.at: dict[int, Row] = {}
        """By offset, what the first broker by name has that has it."""
        for broker, i in product(self.brokers, self.of("log_kept")):
            row = world.rows[i]
            if row.node == broker:
                self.at.setdefault(row.position or 0, row)
        for i in self.of("log_compacted"):
            self.at.setdefault(world.rows[i].position or 0, world.rows[i])

    def of(self, *kinds: str) -> list[int]:
        return [i for i in self.rows if self.w.rows[i].kind in kinds]

    def end(self, broker: str) -> dict[str, str]:
        found = [about(self.w.rows[i]) for i in self.of("log_end") if self.w.rows[i].node == broker]
        return found[-1] if found else {"first": "0", "end": "0"}

    def key(self, id: Id) -> tuple[str, tuple[str, ...]]:
        row = self.w.rows[self.w.published[id]]
        return row.topic or "", tuple(row.keys or ())

    def line(self) -> list[tuple[int, Id]]:
        """Known messages, each where it is first."""
        found: list[tuple[int, Id]] = []
        for position in sorted(self.at):
            id = ident(self.at[position])
            if id in self.w.published and id not in [other for _, other in found]:
                found.append((position, id))
        return found

    def keeps(self, id: Id) -> bool:
        row = self.w.rows[self.w.published[id]]
        text = [*(row.keys or ()), row.topic or ""][0]
        number = zlib.crc32(text[text.find("#") + 1 :].encode())
        return self.matches(self.filter, id) and number % self.part[1] == self.part[0]

    def matches(self, filter_: str, id: Id) -> bool:
        row = self.w.rows[self.w.published[id]]
        topics = [row.topic or "", *(key.partition("#")[0] for key in row.keys or () if "#" in key)]
        return any(level_match(filter_.split("/"), topic.split("/")) for topic in topics)


def _kept(log: OneLog) -> set[Finding]:
    found: set[Finding] = set()
    for broker in log.brokers:
        mine = [i for i in log.of("log_kept") if log.w.rows[i].node == broker]
        gaps = [log.w.rows[i].position for i in log.of("log_gap") if log.w.rows[i].node == broker]
        for i in mine:
            row, id = log.w.rows[i], ident(log.w.rows[i])
            twice = any(j < i and ident(log.w.rows[j]) == id and log.w.rows[j].position != row.position for j in mine)
            if log.w.published.get(id, i) >= i or not log.keeps(id) or twice:
                found.add(("log_kept", broker, id))
        upto = int(log.end(broker).get("compacted", "0"))
        gaps += [at for i in log.of("log_compacted") if (at := log.w.rows[i].position or 0) < upto]
        places = [log.w.rows[i].position or 0 for i in mine]
        line = [int(log.end(broker)["first"]) - 1, *places, int(log.end(broker)["end"])]
        for n in range(1, len(line)):
            if line[n] <= line[n - 1] or not set(range(line[n - 1] + 1, line[n])) <= set(gaps):
                found.add(("log_kept", broker, None))
    return found | _dropped(log)


def _dropped(log: OneLog) -> set[Finding]:
    """Every dropped message has a later one of its key, or is a tombstone that was too old."""
    found: set[Finding] = set()
    declared = about(next(log.w.rows[i] for i in log.of("log_declared")))
    for i in log.of("log_compacted"):
        row, id = log.w.rows[i], ident(log.w.rows[i])
        age = int(about(row)["until"]) - int(about(row)["at"])
        is_old = "empty" in about(row) and age >= int(declared.get("grace", "0"))
        is_unknown = log.w.published.get(id, i) >= i or not log.keeps(id) or "grace" not in declared
        others = [(at, ident(other)) for at, other in log.at.items() if ident(other) in log.w.published]
        if is_unknown or not (
            is_old or any(at > (row.position or 0) and log.key(other) == log.key(id) for at, other in others)
        ):
            found.add(("log_kept", row.node, id))
    return found


def _same(log: OneLog) -> set[Finding]:
    found: set[Finding] = set()
    last = {log.w.rows[i].node: i for i in log.of("log_page")}
    for i in log.of("log_kept", "log_read", "log_compacted"):
        row = log.w.rows[i]
        other = log.at.get(row.position or 0)
        if other is None or other.node == row.node or (row.kind == "log_read" and i > last.get(row.node, -1)):
            continue
        told = None not in (row.tseq, other.tseq) and row.tseq != other.tseq
        if ident(row) != ident(other) or about(row)["crc"] != about(other)["crc"] or told:
            found.add(("log_same", row.node, ident(row)))
    for i, broker in product(log.of("log_gap"), log.brokers):
        position = log.w.rows[i].position or 0
        mine = [log.w.rows[j].position for j in log.of("log_gap") if log.w.rows[j].node == broker]
        inside = int(log.end(broker)["first"]) <= position < int(log.end(broker)["end"])
        if inside and position not in mine:
            found.add(("log_same", broker, None))
    return found


def _gap(log: OneLog) -> set[Finding]:
    shaken = [row.time_us for row in log.w.rows if row.kind in SHAKING]
    marks = [log.w.rows[i] for i in log.of("log_gap")]
    first = {row.position: min(r.node for r in marks if r.position == row.position) for row in marks}
    return {
        ("log_gap", row.node, None)
        for row in marks
        if row.node == first[row.position] and not any(time_us < row.time_us for time_us in shaken)
    }


def _read(log: OneLog) -> set[Finding]:
    found: set[Finding] = set()
    for i in log.of("log_page"):
        page = log.w.rows[i]
        since = max([j for j in log.of("log_page") if j < i and log.w.rows[j].node == page.node], default=-1)
        mine = [log.w.rows[j] for j in log.of("log_read") if since < j < i and log.w.rows[j].node == page.node]
        begin, end = int(about(page)["from"]), int(about(page)["until"])
        for n, row in enumerate(mine):
            before = max([begin - 1, *[other.position or 0 for other in mine[:n]]])
            position, id = row.position or 0, ident(row)
            asked = id not in log.w.published or log.matches(page.filter or "", id)
            if not before < position < end or not asked:
                found.add(("log_read", page.node, id))
        for position in range(begin, end):
            if position not in log.at or position in [row.position for row in mine]:
                continue
            if any(log.w.rows[j].position == position and j < i for j in log.of("log_compacted")):
                continue
            id = ident(log.at[position])
            if id in log.w.published and log.matches(page.filter or "", id):
                found.add(("log_read", page.node, id))
    return found


def is_whole(w: World) -> bool:
    ends = [row.kind for row in w.rows if row.kind in ("quiescent", "timeout")]
    hung = [
        node
        for node in {row.node for row in w.rows}
        for last in [[r.kind for r in w.rows if r.node == node and r.kind in ("freeze", "unfreeze", "crash", "leave")]]
        if last and last[-1] == "freeze"
    ]
    return bool(ends) and ends[-1] == "quiescent" and not hung and not w.probable


def _complete(log: OneLog) -> set[Finding]:
    running = [broker for broker in log.brokers if "runs" in log.end(broker)]
    declared = next(about(log.w.rows[i])["replicas"].split() for i in log.of("log_declared"))
    fed = log.of("log_fed")
    if not is_whole(log.w) or not fed or 2 * len(running) <= len(declared):
        return set()
    end = max(int(log.end(broker)["end"]) for broker in running)
    found: set[Finding] = {("log_complete", b, None) for b in running if int(log.end(b)["end"]) < end}
    since = fed[-1] if log.of("log_gap") else fed[0]
    there = [ident(row) for row in log.at.values()]
    missing = [
        id for id, p in log.w.published.items() if p > since and log.keeps(id) and log.w.owed(id) and id not in there
    ]
    if len(missing) > min(int(log.end(broker)["first"]) for broker in running):
        found |= {("log_complete", log.name, id) for id in missing}
    return found


def _order(log: OneLog) -> set[Finding]:
    w, line = log.w, log.line()
    found: set[Finding] = set()
    pasts = {id: w.past(id) for _, id in line if w.guarantee(id) in ("causal", "total")}
    for (one, a), (other, b) in product(line, line):
        if other >= one:
            continue
        later = a[0] == b[0] and a[2] == b[2] == "ordered" and (a[1], a[3]) < (b[1], b[3]) and w.in_order(a, b)
        if later or a in pasts.get(b, ()):
            found.add(("log_order", log.name, a if later else b))
    for (one, a), (other, b) in product(line, line):
        if other < one and b in pasts and a in pasts[b]:
            found.add(("log_order", log.name, b))
    if not _proven(w):
        return found
    claims = {id: _claim(w, id) for id in w.published}
    totals = {
        id: claims[id] if claims[id] is not None else log.at[at].tseq for at, id in line if w.guarantee(id) == "total"
    }
    wrong: set[Finding] = set()
    for at, id in line:
        if id in totals and claims[id] is not None and log.at[at].tseq not in (None, claims[id]):
            wrong.add(("log_order", log.name, id))
    for (one, a), (other, b) in product(line, line):
        if (
            other < one
            and a in totals
            and b in totals
            and w.lines(a) & w.lines(b)
            and None not in (totals[a], totals[b])
            and int(totals[b] or 0) > int(totals[a] or 0)
        ):
            wrong.add(("log_order", log.name, a))
    return found | wrong if wrong else found | _barriers(log, line, totals, claims)


def _barriers(
    log: OneLog, line: list[tuple[int, Id]], totals: dict[Id, int | None], claims: dict[Id, int | None]
) -> set[Finding]:
    """A publication is before a total in the log, and behind it or a later one at somebody; or the other way round."""
    w = log.w
    found: set[Finding] = set()
    placed = [(at, id) for at, id in line if totals.get(id) is not None]
    for (at, x), (there, t), life in product(line, placed, w.lives):
        place = w.place(life, x)
        common = w.lines(x) & w.lines(t)
        if w.guarantee(x) in ("total", "eventual") or not common or place is None:
            continue
        for u in w.published:
            other = w.place(life, u)
            if w.guarantee(u) != "total" or other is None or not common & w.lines(u):
                continue
            here, heard = int(totals[t] or 0), int(claims[u] or 0)
            if (at < there and other < place and heard >= here) or (there < at and place < other and here >= heard):
                found.add(("log_order", log.name, x))
    return found


def _claim(w: World, id: Id) -> int | None:
    """What all were told; None where they were told different places, or none."""
    told = {
        w.rows[i].tseq
        for _, i in w.all_deliveries()
        if ident(w.rows[i]) == id and i > w.published[id] and w.rows[i].tseq is not None and w.guarantee(id) == "total"
    }
    return told.pop() if len(told) == 1 else None


def _proven(w: World) -> bool:
    """The places that subscribers were told are an order of all totals that were delivered."""
    totals: list[Any] = [id for id in w.published if w.guarantee(id) == "total" and w.lines(id)]
    for life, a in product(w.lives, totals):
        if w.place(life, a) is not None and _claim(w, a) is None:
            return False
    for life, a, b in product(w.lives, totals, totals):
        one, two = w.place(life, a), w.place(life, b)
        falls = int(_claim(w, a) or 0) >= int(_claim(w, b) or 0)
        if one is not None and two is not None and one < two and w.lines(a) & w.lines(b) and falls:
            return False
    return True
