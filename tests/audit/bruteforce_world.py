"""What the rows of a trace say, for the definitions of `bruteforce`.

Each question is answered from the rows, with no index: the answer is what the definition says. Rows do not change, so
an answer is kept for when the same question comes again (`remembered`).
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from resprout.core.guarantee import OrderScope, Promises, Reliability
from resprout.trace.schema import Row

Id = tuple[Any, ...]
Finding = tuple[Any, ...]
Question = TypeVar("Question", bound=Callable[..., Any])


def remembered(question: Question) -> Question:
    """Answer each question once for a world and its arguments. Callers do not change an answer."""
    name = question.__name__

    @wraps(question)
    def ask(world: "World", *about: Any) -> Any:
        key = (name, *about)
        if key not in world.answers:
            world.answers[key] = question(world, *about)
        return world.answers[key]

    return cast(Question, ask)


def ident(row: Row) -> Id:
    return (row.publisher, row.incarnation, row.stream, row.seq)


class World:
    def __init__(self, rows: list[Row], promise: Promises = Promises()) -> None:  # noqa: B008
        self.rows = rows
        self.answers: dict[Any, Any] = {}
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

    @remembered
    def begin_of(self, life: tuple[str, int]) -> int:
        return min(i for i, other in self.life_of.items() if other == life)

    @remembered
    def end_of(self, life: tuple[str, int]) -> float:
        begin = self.begin_of(life)
        ends = [i for i, r in enumerate(self.rows) if r.node == life[0] and r.kind in ("crash", "leave") and i > begin]
        return min(ends, default=float("inf"))

    @remembered
    def frozen_at(self, life: tuple[str, int], i: int) -> bool:
        frozen = False
        for row in self.rows[self.begin_of(life) + 1 : int(min(i + 1, self.end_of(life)))]:
            if row.node == life[0] and row.kind in ("freeze", "unfreeze"):
                frozen = row.kind == "freeze"
        return frozen

    def correct(self, life: tuple[str, int]) -> bool:
        return self.end_of(life) == float("inf") and not self.frozen_at(life, len(self.rows))

    def _subscriptions(self, life: tuple[str, int]) -> list[dict[str, Any]]:
        """Each with the rows of its steps; see `audit.records` for what the steps mean."""
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

    @remembered
    def due_until(self, life: tuple[str, int], id: Id) -> float:
        """The row until which it is due there; -1 when it never is."""
        p = self.published[id]
        if self.told_expired(life, id) < float("inf"):
            return -1
        until = [
            s["ending"]
            for s in self.subscriptions[life]
            if s["confirmed"] < p < min(s["ending"], self.end_of(life)) and self.asked(s, id)
        ]
        return max(until, default=-1)

    @remembered
    def told_expired(self, life: tuple[str, int], id: Id) -> float:
        """The row at which the client was first told that the publication has expired."""
        since, until = max(self.begin_of(life), self.published[id]), self.end_of(life)
        rows = enumerate(self.rows)
        told = [
            i for i, row in rows if row.kind == "expired" and (row.node, ident(row)) == (life[0], id)
            and since < i < until
        ]  # fmt: skip
        return min(told, default=float("inf"))

    @remembered
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

    @remembered
    def first(self, life: tuple[str, int], id: Id) -> int | None:
        """The row of the first sound delivery."""
        if id not in self.published:
            return None
        return next((i for i in self.delivered[life] if ident(self.rows[i]) == id and i > self.published[id]), None)

    @remembered
    def place(self, life: tuple[str, int], id: Id) -> tuple[int, int] | None:
        """(position, row): what decides the order at a subscriber."""
        i = self.first(life, id)
        return None if i is None else (self.rows[i].position or 0, i)

    @remembered
    def ever(self, life: tuple[str, int], id: Id) -> bool:
        return any(ident(self.rows[i]) == id for i in self.delivered[life])

    @remembered
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

    @remembered
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

    @remembered
    def pairs(self, id: Id) -> set[tuple[str, str]]:
        """Those that it is bound by."""
        split = [key.partition("#") for key in self.rows[self.published[id]].keys or ()]
        named = {(topic, rest) if sign else (self.topic(id), topic) for topic, sign, rest in split}
        return {pair for pair in named if pair[0] == self.topic(id)} if self.by_topic else named

    @remembered
    def lines(self, id: Id) -> set[tuple[str, str]]:
        """Pairs on which totals are in order; those without keys are so in their topic."""
        is_keyless = self.guarantee(id) == "total" and not self.rows[self.published[id]].keys
        return self.pairs(id) | ({(self.topic(id), "")} if is_keyless else set())

    def told(self, life: tuple[str, int], id: Id) -> int | None:
        """The place of a total, as its first sound delivery there says."""
        i = self.first(life, id)
        return None if i is None else self.rows[i].tseq

    def times(self, id: Id) -> tuple[float, float]:
        """When it is due and when it expires, in the time of the trace; if it does not say, always and never."""
        row = self.rows[self.published[id]]
        about = row.attributes or {}
        begin = row.time_us - int(about.get("time.published", "0"))
        is_timed = "time.published" in about
        due = begin + int(about["time.due"]) if is_timed and self.is_delayed(id) else 0
        return due, begin + int(about["mqtt.expires"]) if is_timed and "mqtt.expires" in about else float("inf")

    def has_unknown_expiry(self, id: Id) -> bool:
        about = self.rows[self.published[id]].attributes or {}
        return "mqtt.expires" in about and "time.published" not in about

    def is_delayed(self, id: Id) -> bool:
        return self.guarantee(id) == "eventual" and "time.due" in (self.rows[self.published[id]].attributes or {})

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
