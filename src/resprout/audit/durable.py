"""Durable subscriptions, judged by what all their consumers were handed together.

- Nothing is lost: what is owed (see `audit.owed`), matches, and was published after the subscription was confirmed, was
  handed to somebody. Judged of a run that came to rest with all links whole and no node frozen, if somebody consumes
  the subscription then; not where probability is promised, nor where the oldest are dropped.
- Only what was published before, and matches, is handed out.
- It is handed out once without saying that it may have been before; and never to a consumer that has acknowledged it.
- Each consumer is handed the ordered publications of a client, and of one lane, in the order they were made (see
  `audit.fifo`); in a group, those that name a common key.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from resprout.audit.fifo import Delivered, overtaken_by
from resprout.audit.history import History
from resprout.audit.interest import matches
from resprout.audit.naming import MessageId, seconds
from resprout.audit.records import PublicationRecord
from resprout.audit.sense import durable_of, identity_of
from resprout.audit.verdict import Anomaly
from resprout.core.errors import UsageError
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.trace import kinds
from resprout.trace.errors import TraceError
from resprout.trace.schema import Row

RULE: Final = "durable"
NO_DURABLES: Final = "the trace holds no durable subscription"

ConsumerLife = tuple[str, int]
"""A client, and how often it had begun to consume the subscription."""


class HandedOut(NamedTuple):
    row: int
    time_us: int
    life: ConsumerLife
    is_again: bool
    """It says that it may have been handed out before."""


class DurableRecord:
    """What the rows say of one subscription."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.predicate: Predicate | None = None
        """As it was confirmed first."""
        self.is_group = False
        self.drops = False
        self.confirmed: int | None = None
        self.handed: dict[MessageId, list[HandedOut]] = {}
        self.acknowledged: dict[tuple[ConsumerLife, MessageId], int] = {}
        self.lives: dict[str, int] = {}
        """By client: how often it began."""
        self.present: set[str] = set()
        """Who consumes."""

    def is_judged_for_loss(self, history: History) -> bool:
        is_kept = self.confirmed is not None and bool(self.present) and not self.drops
        return is_kept and history.is_whole and not history.promise.is_probable

    def life(self, node: str) -> ConsumerLife:
        return node, self.lives.get(node, 0)


def read_durables(history: History) -> list[DurableRecord]:
    """Every durable subscription of a trace. Raises TraceError for rows that do not make sense."""
    found: dict[str, DurableRecord] = {}
    for number, row in history.consumed:
        if row.kind in (kinds.CRASH, kinds.LEAVE):
            for each in found.values():
                each.present.discard(row.node)
            continue
        name = durable_of(number, row)
        each = found.setdefault(name, DurableRecord(name))
        about = row.attributes or {}
        if row.kind == kinds.CONSUME:
            each.lives[row.node] = each.lives.get(row.node, 0) + 1
            asked = _predicate(number, row)
            if each.confirmed is None:
                each.predicate, each.is_group = asked, "group" in about
        elif row.kind == kinds.CONSUMING:
            each.confirmed = number if each.confirmed is None else each.confirmed
            each.present.add(row.node)
        elif row.kind == kinds.CONSUME_OVER:
            each.present.discard(row.node)
        elif row.kind == kinds.ACKNOWLEDGED:
            each.acknowledged.setdefault((each.life(row.node), identity_of(number, row)), number)
        else:
            each.drops |= "dropped" in about
            handed = HandedOut(number, row.time_us, each.life(row.node), "redelivered" in about)
            each.handed.setdefault(identity_of(number, row), []).append(handed)
    return list(found.values())


def check_durables(history: History, durables: Iterable[DurableRecord], owed: bytearray) -> Iterator[Anomaly]:
    for each in durables:
        yield from _handed_rightly(each, history)
        yield from _in_order(each, history)
        if each.is_judged_for_loss(history):
            yield from _lost(each, history, owed)


def unjudged_note(unjudged: int, durables: int) -> str:
    """What is said where in so many it is not judged what is missing."""
    return f"what is missing was not judged in {unjudged} of {durables} durable subscriptions"


def _handed_rightly(each: DurableRecord, history: History) -> Iterator[Anomaly]:
    for id, times in each.handed.items():
        p = _published(history, id)
        if p is None or p.row > times[0].row:
            yield _anomaly(each, history, id, times[0], "which nobody had published")
        elif each.predicate is not None and not matches(each.predicate, p):
            yield _anomaly(each, history, id, times[0], f"on {p.topic}, for which it does not ask")
        first = [handed for handed in times if not handed.is_again]
        for handed in first[1:]:
            yield _anomaly(each, history, id, handed, f"and not told that {first[0].life[0]} had been before")
        for handed in times:
            if each.acknowledged.get((handed.life, id), handed.row) < handed.row:
                yield _anomaly(each, history, id, handed, "which it had acknowledged")


def _in_order(each: DurableRecord, history: History) -> Iterator[Anomaly]:
    newest: dict[tuple[object, ...], Delivered] = {}
    for handed, id in sorted((handed, id) for id, times in each.handed.items() for handed in times):
        p = _published(history, id)
        if p is None or not p.ordered:
            continue
        origin = (handed.life, id[0], p.lane)
        lines = [(*origin, pair) for pair in p.lines if pair[1]] if each.is_group else [origin]
        before = [overtaken_by(newest, line, id, handed.row) for line in lines]
        later = next((later for later in before if later is not None and later[0] != id), None)
        if later is not None:
            yield _anomaly(each, history, id, handed, f"after {history.naming.message(later[0])}")


def _lost(each: DurableRecord, history: History, owed: bytearray) -> Iterator[Anomaly]:
    for p in history.publications:
        if each.confirmed is None or each.predicate is None or p.row < each.confirmed or not owed[p.number]:
            continue
        if p.id not in each.handed and matches(each.predicate, p):
            name = history.name(p.number)
            text = f"{each.name}: nobody was handed {name}, published on {p.topic} at {seconds(p.time_us)}"
            yield Anomaly(RULE, p.time_us, each.name, (name,), text)


def _published(history: History, id: MessageId) -> PublicationRecord | None:
    number = history.number_of.get(id)
    return history.publications[number] if number is not None else None


def _predicate(number: int, row: Row) -> Predicate:
    if row.filter is None:
        raise TraceError(f"row {number}: a {row.kind} row without filter")
    try:
        return parse_predicate(row.filter, row.where)
    except UsageError as error:
        raise TraceError(f"row {number}: {error}") from None


def _anomaly(each: DurableRecord, history: History, id: MessageId, handed: HandedOut, what: str) -> Anomaly:
    node, name = handed.life[0], history.naming.message(id)
    text = f"{each.name}: {node} was handed {name} at {seconds(handed.time_us)}, {what}"
    return Anomaly(RULE, handed.time_us, node, (name,), text)
