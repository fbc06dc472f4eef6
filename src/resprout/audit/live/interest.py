"""Who asks for what at this moment of a live run."""

from collections.abc import Iterable

import msgspec

from resprout.audit.live.memory import KeptPublication, KeptSubscription
from resprout.audit.subscriptions import NEVER, SubscriptionBook, SubscriptionRecord
from resprout.core.errors import UsageError
from resprout.core.names import AttributeValue
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.filters.topics import topic_matches
from resprout.trace import kinds
from resprout.trace.errors import TraceError
from resprout.trace.text import values

Topics = tuple[str, ...]
Cell = dict[str, str] | None
"""The `attributes` of a row."""
_Found = tuple[dict[int, int], list[tuple[int, Predicate]]]


class _Entry(msgspec.Struct):
    subscription: SubscriptionRecord
    filter: str
    where: str | None
    """As the client wrote them."""
    confirmed_us: int = 0

    @property
    def predicate(self) -> Predicate:
        return self.subscription.predicate


class LiveInterest:
    def __init__(self, kept: Iterable[KeptSubscription] = ()) -> None:
        self._book = SubscriptionBook()
        self._of: dict[int, list[_Entry]] = {}
        """By life, those that are not over."""
        self._due: dict[Topics, _Found] = {}
        """Found before: lives that are owed it in any case, and those with a condition."""
        self._open: dict[int, dict[Topics, tuple[bool, list[Predicate]]]] = {}
        """The same for what is allowed, by life."""
        for s in kept:
            self._read_back(s)

    # -- what happens to subscriptions ---------------------------------------------------------------------------------

    def record(self, life: int, kind: str, row: int, time_us: int, filter_: str, where: str | None) -> None:
        """TraceError for a filter or condition that cannot be read."""
        try:
            begun = self._book.record(life, kind, row, filter_, where)
        except UsageError as error:
            raise TraceError(f"row {row}: {error}") from None
        mine = self._of.setdefault(life, [])
        if begun is not None:
            mine.append(_Entry(begun, filter_, where))
        for entry in mine:
            if entry.subscription.confirmed == row:
                entry.confirmed_us = time_us
        self._of[life] = [entry for entry in mine if entry.subscription.ended == NEVER]
        self._open.pop(life, None)
        self._due.clear()

    def lose(self, life: int, row: int) -> None:
        """The session is lost: what was confirmed is asked for again."""
        begun = [_Entry(fresh, filter_, where) for filter_, where, fresh in self._book.lose(life, row)]
        lasting = [entry for entry in self._of.get(life, ()) if entry.subscription.ended == NEVER]
        self._of[life] = [*lasting, *begun]
        self._open.pop(life, None)
        self._due.clear()

    def end_life(self, life: int, row: int) -> None:
        for entry in self._of.pop(life, ()):
            self._book.record(life, kinds.UNSUBSCRIBED, row, entry.filter, entry.where)
        self._open.pop(life, None)
        self._due.clear()

    # -- questions -----------------------------------------------------------------------------------------------------

    def due(self, topics: Topics, attributes: Cell, row: int) -> dict[int, int]:
        """By life with a confirmed subscription that matches: the row until which it is due there, which is never."""
        found = self._due.get(topics)
        if found is None:
            found = self._due[topics] = self._matching(topics)
        lives = found[0].copy()
        if found[1]:
            given = _values(attributes, row)
            for life, predicate in found[1]:
                if life not in lives and predicate.where is not None and predicate.where.matches(given):
                    lives[life] = NEVER
        return lives

    def confirmed_by(self, life: int, p: KeptPublication, time_us: int) -> bool:
        """Whether that was so already at some time: for rows that come too late."""
        return any(
            entry.subscription.confirmed != NEVER and entry.confirmed_us < time_us and _matches(entry.predicate, p)
            for entry in self._of.get(life, ())
        )

    def lasting(self, life: int, p: KeptPublication) -> Predicate | None:
        """A subscription that matches, was confirmed before the publication, and has not been asked to end."""
        for entry in self._of.get(life, ()):
            s = entry.subscription
            if s.confirmed < p.row and s.ending == NEVER and _matches(s.predicate, p):
                return s.predicate
        return None

    def asked(self, life: int, p: KeptPublication) -> bool:
        """Whether any subscription that is open now asks for it."""
        known = self._open.setdefault(life, {})
        found = known.get(p.topics)
        if found is None:
            matching = [s.predicate for s in self._of.get(life, ()) if _topics_match(s.predicate, p.topics)]
            conditions = [predicate for predicate in matching if predicate.where is not None]
            found = known[p.topics] = (len(conditions) < len(matching), conditions)
        if found[0] or not found[1]:
            return found[0]
        given = _values(p.attributes, p.row)
        return any(predicate.where is not None and predicate.where.matches(given) for predicate in found[1])

    def open_at(self, life: int) -> list[tuple[str, str | None]]:
        return [(entry.filter, entry.where) for entry in self._of.get(life, ())]

    # -- writing down --------------------------------------------------------------------------------------------------

    def kept(self) -> list[KeptSubscription]:
        return [
            KeptSubscription(
                life, entry.filter, entry.where, s.asked, s.confirmed, s.ending, s.repeats, entry.confirmed_us
            )
            for life, mine in self._of.items()
            for entry in mine
            for s in (entry.subscription,)
        ]

    def _read_back(self, kept: KeptSubscription) -> None:
        """Its steps once more: a book that has seen them is in the same state."""
        steps = [(kinds.SUBSCRIBE, kept.asked), *[(kinds.SUBSCRIBE, kept.asked)] * kept.repeats]
        steps += [(kinds.SUBSCRIBED, kept.confirmed)] if kept.confirmed != NEVER else []
        steps += [(kinds.UNSUBSCRIBE, kept.ending)] if kept.ending != NEVER else []
        for kind, row in steps:
            self.record(kept.life, kind, row, kept.confirmed_us, kept.filter, kept.where)

    def _matching(self, topics: Topics) -> _Found:
        free: dict[int, int] = {}
        conditional: list[tuple[int, Predicate]] = []
        for life, mine in self._of.items():
            for entry in mine:
                s = entry.subscription
                if s.confirmed != NEVER and s.ending == NEVER and _topics_match(s.predicate, topics):
                    if s.predicate.where is None:
                        free[life] = NEVER
                    else:
                        conditional.append((life, s.predicate))
        return free, conditional


def asks(open_then: Iterable[tuple[str, str | None]], p: KeptPublication) -> bool:
    """Whether one of these subscriptions asks for it."""
    return any(_matches(parse_predicate(filter_, where), p) for filter_, where in open_then)


def _matches(predicate: Predicate, p: KeptPublication) -> bool:
    if not _topics_match(predicate, p.topics):
        return False
    return predicate.where is None or predicate.where.matches(_values(p.attributes, p.row))


def _topics_match(predicate: Predicate, topics: Topics) -> bool:
    return any(topic_matches(predicate.filter, topic) for topic in topics)


def _values(attributes: Cell, row: int) -> dict[str, AttributeValue]:
    try:
        return values(attributes)
    except TraceError as error:
        raise TraceError(f"row {row}: {error}") from None
