"""Which subscribers each publication was promised to.

A publication is *due* at a subscriber when one of the subscriber's subscriptions matches it (any topic that it names
matches the filter, and the condition holds) and was confirmed before it and not asked to end before it, nor had the
subscriber crashed. It stays due until the subscription is asked to end: nobody can be blamed for what was still under
way then. So it does until the session is lost, and the client told; but what is missing then is counted as that.

A publication is *owed*, to all where it is due, when its receipt reached `safe`, or a correct subscriber delivered it,
or its publisher is correct and was not told that it failed; never when it was refused for good.

Matching is done once for each filter and distinct set of topics, and publications between which no subscription
changed share one answer, so the cost is that of the deliveries that are due.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from resprout.audit.history import History
from resprout.audit.records import NEVER, PublicationRecord
from resprout.audit.subscriptions import SubscriptionRecord
from resprout.filters.predicate import Predicate
from resprout.filters.topics import is_plain, topic_matches
from resprout.trace.errors import TraceError
from resprout.trace.text import values

Due = tuple[int, int]
"""(life, row until which it is due)."""


def matches(predicate: Predicate, publication: PublicationRecord) -> bool:
    """Whether a subscription asks for a publication."""
    if not any(topic_matches(predicate.filter, topic) for topic in publication.topics):
        return False
    return predicate.where is None or predicate.where.matches(attributes_of(publication))


def attributes_of(publication: PublicationRecord) -> dict[str, str | int | float | bool]:
    try:
        return values(publication.attributes)
    except TraceError as error:
        raise TraceError(f"row {publication.row}: {error}") from None


def dues(history: History) -> list[tuple[Due, ...]]:
    """For each publication, where it is due."""
    changes = _changes(history)
    board = _Board({s.predicate for life in history.lives for s in life.subscriptions})
    found: list[tuple[Due, ...]] = []
    change = 0
    for publication in history.publications:
        while change < len(changes) and changes[change][0] < publication.row:
            changes[change][1](board)
            change += 1
        found.append(board.due(publication))
    return found


def owed(history: History) -> bytearray:
    """For each publication, whether it is owed where it is due."""
    safe, failed = set(), set()
    for _, row in history.receipts:
        if row.receipt in ("safe", "delivered"):
            safe.add((row.publisher, row.incarnation, row.stream, row.seq))
        elif row.receipt == "failed":
            failed.add((row.publisher, row.incarnation, row.stream, row.seq))
    delivered = bytearray(len(history.publications))
    for life in history.lives:
        if life.correct:
            for number in life.heard:
                delivered[number] = 1
    return bytearray(
        p.id not in history.refused
        and (p.id in safe or delivered[p.number] or (history.lives[p.life].correct and p.id not in failed))
        for p in history.publications
    )


class Came(NamedTuple):
    """How many deliveries were owed to correct subscribers, and what became of them. The rest is missing, and nobody
    was told."""

    owed: int
    came: int
    told: int
    """Missing, and the client was told that deliveries may be."""


def count_deliveries(history: History, due: Sequence[tuple[Due, ...]], owed: bytearray) -> Came:
    expected = came = told = 0
    for p in history.publications:
        if not owed[p.number]:
            continue
        for number, until in due[p.number]:
            life = history.lives[number]
            if life.correct and (until == NEVER or until in life.losses):
                expected += 1
                has = life.has(p.number)
                came += has
                told += not has and until != NEVER
    return Came(expected, came, told)


class _Board:
    """The subscriptions in force at one moment."""

    def __init__(self, predicates: set[Predicate]) -> None:
        self._active: dict[Predicate, dict[int, SubscriptionRecord]] = {
            predicate: {} for predicate in sorted(predicates)
        }
        self._plain: dict[str, list[Predicate]] = {}
        self._wild: list[Predicate] = []
        for predicate in self._active:
            if is_plain(predicate.filter):
                self._plain.setdefault(predicate.filter, []).append(predicate)
            else:
                self._wild.append(predicate)
        self._matching: dict[tuple[str, ...], tuple[list[Predicate], list[Predicate]]] = {}
        self._shared: dict[tuple[str, ...], tuple[Due, ...]] = {}

    def add(self, subscription: SubscriptionRecord) -> None:
        self._active[subscription.predicate][subscription.asked] = subscription
        self._shared.clear()

    def remove(self, subscription: SubscriptionRecord) -> None:
        if self._active[subscription.predicate].pop(subscription.asked, None) is not None:
            self._shared.clear()

    def due(self, publication: PublicationRecord) -> tuple[Due, ...]:
        free, conditional = self._matching_topics(publication.topics)
        shared = self._shared.get(publication.topics)
        if shared is None:
            shared = self._shared[publication.topics] = self._collect(free)
        if not conditional:
            return shared
        attributes = attributes_of(publication)
        met = [p for p in conditional if self._active[p] and p.where is not None and p.where.matches(attributes)]
        return self._collect([*free, *met]) if met else shared

    def _collect(self, predicates: list[Predicate]) -> tuple[Due, ...]:
        until: dict[int, int] = {}
        for predicate in predicates:
            for subscription in self._active[predicate].values():
                until[subscription.life] = max(until.get(subscription.life, -1), subscription.ending)
        return tuple(sorted(until.items()))

    def _matching_topics(self, topics: tuple[str, ...]) -> tuple[list[Predicate], list[Predicate]]:
        known = self._matching.get(topics)
        if known is None:
            found = [p for topic in topics for p in self._plain.get(topic, ())]
            found += [p for p in self._wild if any(topic_matches(p.filter, topic) for topic in topics)]
            known = ([p for p in found if p.where is None], [p for p in found if p.where is not None])
            self._matching[topics] = known
        return known


def _changes(history: History) -> list[tuple[int, Callable[[_Board], None]]]:
    """What happens to the board, by row."""
    changes: list[tuple[int, Callable[[_Board], None]]] = []
    for life in history.lives:
        for s in life.subscriptions:
            end = min(s.ending, life.end_row)
            if s.confirmed < end:
                changes.append((s.confirmed, lambda board, s=s: board.add(s)))  # type: ignore[misc]
                if end != NEVER:
                    changes.append((end, lambda board, s=s: board.remove(s)))  # type: ignore[misc]
    changes.sort(key=lambda change: change[0])
    return changes
