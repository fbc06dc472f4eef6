"""Who asks for what at the moment up to which rows were read.

The rows of subscriptions go in as they come, so that the answers are those of that moment: where a publication is due,
and whether a client has anything open that asks for it. Filters are held against each distinct set of topics once, and
publications between which no subscription changed share one answer.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from resprout.audit.records import NEVER, PublicationFacts, SubscriptionBook, SubscriptionRecord
from resprout.core.errors import UsageError
from resprout.core.limits import AttributeValue
from resprout.filters.predicate import Predicate, is_plain, parse_predicate, topic_matches
from resprout.trace.schema import TraceError, values

Topics = tuple[str, ...]
Asked = tuple[str, str | None]
"""Filter and condition, as the client wrote them."""
Due = tuple[int, int]
"""(life, row until which it is due)."""
_SPARE: Final = 64
"""Predicates that nobody has any more are kept, as many as are in use and this number."""


class OpenSubscription(msgspec.Struct):
    subscription: SubscriptionRecord
    filter: str
    where: str | None
    """As the client wrote them."""
    confirmed_us: int = 0


class WantedBy:
    """Confirmed subscriptions that ask for a publication."""

    def __init__(self, subscriptions: Iterable[SubscriptionRecord]) -> None:
        self.subscriptions = tuple(subscriptions)
        self.lives = dict.fromkeys((s.life for s in self.subscriptions), NEVER)
        """Whose they are, each with the row until which it is due there, as far as is known by then."""

    def dues(self) -> tuple[Due, ...]:
        """When everything has been read: until when it is due where."""
        until: dict[int, int] = {}
        for s in self.subscriptions:
            until[s.life] = max(until.get(s.life, -1), s.ending)
        return tuple(sorted(until.items()))


class TraceInterest:
    def __init__(self) -> None:
        self._book = SubscriptionBook()
        self._of: dict[int, dict[Asked, list[OpenSubscription]]] = {}
        """By life, those that are not over."""
        self._confirmed: dict[Predicate, dict[int, SubscriptionRecord]] = {}
        """Those from which something is due, by their Python id."""
        self._room = _SPARE
        self._plain: dict[str, list[Predicate]] = {}
        self._wild: list[Predicate] = []
        self._matching: dict[Topics, tuple[list[Predicate], list[Predicate]]] = {}
        """Predicates whose filter lets them pass: without and with a condition."""
        self._shared: dict[Topics, tuple[WantedBy, list[Predicate]]] = {}
        """As long as no subscription changes: who wants it in any case, and conditions that are to be looked at."""
        self._open: dict[int, dict[Topics, tuple[bool, list[Predicate]]]] = {}
        """The same for what is allowed, by life."""

    # -- what happens to subscriptions ---------------------------------------------------------------------------------

    def record(
        self, life: int, kind: str, row: int, time_us: int, filter_: str, where: str | None
    ) -> SubscriptionRecord | None:
        """Takes one row; returns the subscription when it begins one. TraceError for a filter or condition that cannot
        be read."""
        try:
            begun = self._book.record(life, kind, row, filter_, where)
        except UsageError as error:
            raise TraceError(f"row {row}: {error}") from None
        mine = self._of.setdefault(life, {}).setdefault((filter_, where), [])
        if begun is not None:
            mine.append(OpenSubscription(begun, filter_, where))
        for one in mine:
            if one.subscription.confirmed == row:
                one.confirmed_us = time_us
        self._changed(life, mine)
        return begun

    def lose(self, life: int, row: int) -> list[SubscriptionRecord]:
        """The session is lost: what was confirmed is over, and asked for again."""
        begun = self._book.lose(life, row)
        for filter_, where, fresh in begun:
            mine = self._of[life][filter_, where]
            mine.append(OpenSubscription(fresh, filter_, where))
            self._changed(life, mine)
        return [fresh for _, _, fresh in begun]

    def end_life(self, life: int) -> None:
        for one in self._all(life):
            self._confirmed.get(one.subscription.predicate, {}).pop(id(one.subscription), None)
        for filter_, where in self._of.pop(life, ()):
            self._book.forget(life, filter_, where)
        self._open.pop(life, None)
        self._shared.clear()

    def _changed(self, life: int, mine: list[OpenSubscription]) -> None:
        for one in mine:
            s = one.subscription
            if s.confirmed != NEVER and s.ending == NEVER:
                self._at(s.predicate)[id(s)] = s
            elif (known := self._confirmed.get(s.predicate)) is not None:
                known.pop(id(s), None)
        mine[:] = [one for one in mine if one.subscription.ended == NEVER]
        self._open.pop(life, None)
        self._shared.clear()

    def _at(self, predicate: Predicate) -> dict[int, SubscriptionRecord]:
        known = self._confirmed.get(predicate)
        if known is None:
            if len(self._confirmed) >= self._room:
                in_use = {each: held for each, held in self._confirmed.items() if held}
                self._room = _SPARE + 2 * len(in_use)
                self._confirmed, self._plain, self._wild = {}, {}, []
                for each, held in in_use.items():
                    self._add(each, held)
            known = self._add(predicate, {})
        return known

    def _add(self, predicate: Predicate, held: dict[int, SubscriptionRecord]) -> dict[int, SubscriptionRecord]:
        self._confirmed[predicate] = held
        places = self._plain.setdefault(predicate.filter, []) if is_plain(predicate.filter) else self._wild
        places.append(predicate)
        self._matching.clear()
        return held

    # -- questions -----------------------------------------------------------------------------------------------------

    def wanted(self, topics: Topics, attributes: dict[str, str] | None, row: int) -> WantedBy:
        """By whom a publication of this moment is wanted. TraceError when a condition needs an attribute that cannot be
        read."""
        found = self._shared.get(topics)
        if found is None:
            free, conditional = self._passing(topics)
            held = (s for predicate in free for s in self._confirmed[predicate].values())
            found = self._shared[topics] = (WantedBy(held), [p for p in conditional if self._confirmed[p]])
        if not found[1]:
            return found[0]
        given = _values(attributes, row)
        met = [p for p in found[1] if p.where is not None and p.where.matches(given)]
        more = [s for predicate in met for s in self._confirmed[predicate].values()]
        return WantedBy((*found[0].subscriptions, *more)) if more else found[0]

    def asked(self, life: int, p: PublicationFacts) -> bool:
        """Whether any subscription that is open now asks for it."""
        known = self._open.setdefault(life, {})
        found = known.get(p.topics)
        if found is None:
            mine = [one.subscription.predicate for one in self._all(life)]
            matching = [predicate for predicate in mine if _topics_match(predicate, p.topics)]
            conditions = [predicate for predicate in matching if predicate.where is not None]
            found = known[p.topics] = (len(conditions) < len(matching), conditions)
        if found[0] or not found[1]:
            return found[0]
        given = _values(p.attributes, p.row)
        return any(predicate.where is not None and predicate.where.matches(given) for predicate in found[1])

    def open_at(self, life: int) -> list[Asked]:
        return [(one.filter, one.where) for one in self._all(life)]

    def lasting(self, life: int, p: PublicationFacts) -> Predicate | None:
        """Of the oldest subscription that matches, was confirmed before the publication, and has not been asked to
        end."""
        going = (one.subscription for one in self._all(life))
        lasting = [s for s in going if s.confirmed < p.row and s.ending == NEVER and matches(s.predicate, p)]
        return min(lasting, key=lambda s: s.asked).predicate if lasting else None

    def confirmed_by(self, life: int, p: PublicationFacts, time_us: int) -> bool:
        """Whether a subscription that asks for it was confirmed already at some time: for rows that come too late."""
        return any(
            one.subscription.confirmed != NEVER
            and one.confirmed_us < time_us
            and matches(one.subscription.predicate, p)
            for one in self._all(life)
        )

    def open_subscriptions(self) -> Iterator[OpenSubscription]:
        for life in self._of:
            yield from self._all(life)

    def _all(self, life: int) -> Iterator[OpenSubscription]:
        for mine in self._of.get(life, {}).values():
            yield from mine

    def _passing(self, topics: Topics) -> tuple[list[Predicate], list[Predicate]]:
        known = self._matching.get(topics)
        if known is None:
            found = [p for topic in topics for p in self._plain.get(topic, ())]
            found += [p for p in self._wild if _topics_match(p, topics)]
            known = ([p for p in found if p.where is None], [p for p in found if p.where is not None])
            self._matching[topics] = known
        return known


def matches(predicate: Predicate, p: PublicationFacts) -> bool:
    """Whether a subscription asks for a publication."""
    if not _topics_match(predicate, p.topics):
        return False
    return predicate.where is None or predicate.where.matches(_values(p.attributes, p.row))


def asks(open_then: Iterable[Asked], p: PublicationFacts) -> bool:
    """Whether one of these subscriptions asks for it."""
    return any(matches(parse_predicate(filter_, where), p) for filter_, where in open_then)


def _topics_match(predicate: Predicate, topics: Topics) -> bool:
    return any(topic_matches(predicate.filter, topic) for topic in topics)


def _values(attributes: dict[str, str] | None, row: int) -> dict[str, AttributeValue]:
    try:
        return values(attributes)
    except TraceError as error:
        raise TraceError(f"row {row}: {error}") from None
