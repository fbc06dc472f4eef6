"""Who asked for what, from when to when.

A subscription belongs to a life of a client and is named by its filter and condition. It goes through four rows:

    subscribe      asked for: from here on deliveries are allowed
    subscribed     confirmed: what is published from here on is owed
    unsubscribe    asked to end: from here on nothing is owed, also of what was under way
    unsubscribed   over: from here on deliveries are not allowed

Asking again for what one has changes nothing, nor does the refusal of that. Asking again after `unsubscribe` begins
another subscription. A confirmation without a request counts as both. A subscription that is refused before it was
confirmed or asked to end is over.

When a session is lost, what it had confirmed is over, and asked for again at the same moment: the client machine does
that by itself, and the next `subscribed` confirms it anew.
"""

import sys
from typing import Final

import msgspec

from resprout.core.errors import UsageError
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.trace import kinds

NEVER: Final = sys.maxsize
"""Later than any row."""


class SubscriptionRecord(msgspec.Struct):
    life: int
    predicate: Predicate
    asked: int
    """Rows of the four steps; later than any row while a step has not happened."""
    confirmed: int = NEVER
    ending: int = NEVER
    ended: int = NEVER
    repeats: int = 0
    """Further requests for it that were neither refused nor needed."""


class SubscriptionBook:
    def __init__(self) -> None:
        self._predicates: dict[tuple[str, str | None], Predicate] = {}
        self._open: dict[tuple[int, str, str | None], list[SubscriptionRecord]] = {}
        """Not yet over, oldest first."""

    def record(self, life: int, kind: str, row: int, filter_: str, where: str | None) -> SubscriptionRecord | None:
        """Takes one row; returns the subscription when it begins one. Raises UsageError for a filter or condition that
        cannot be read."""
        going = self._open.setdefault((life, filter_, where), [])
        begun = None
        if kind == kinds.SUBSCRIBE:
            lasting = next((s for s in going if s.ending == NEVER), None)
            if lasting is None:
                begun = SubscriptionRecord(life, self._predicate(filter_, where), row)
                going.append(begun)
            else:
                lasting.repeats += 1
            return begun
        if kind == kinds.SUBSCRIBED:
            current = next((s for s in going if s.confirmed == NEVER), None)
            if current is None and not any(s.ending == NEVER for s in going):
                current = begun = SubscriptionRecord(life, self._predicate(filter_, where), row)
                going.append(begun)
            if current is not None:
                current.confirmed = row
        elif kind == kinds.UNSUBSCRIBE:
            for subscription in going:
                subscription.ending = min(subscription.ending, row)
        elif kind == kinds.UNSUBSCRIBED:
            self._close(going, next((s for s in going if s.ending != NEVER), going[0] if going else None), row)
        elif kind == kinds.REFUSED:
            refused = next((s for s in going if s.ending == NEVER), None)
            if refused is not None and refused.repeats:
                refused.repeats -= 1
            elif refused is not None and refused.confirmed == NEVER:
                self._close(going, refused, row)
        return begun

    def lose(self, life: int, row: int) -> list[tuple[str, str | None, SubscriptionRecord]]:
        """The session of a life is lost; returns filter, condition and subscription of those that begin for the ones
        that are over."""
        begun = []
        for (owner, filter_, where), going in self._open.items():
            if owner != life:
                continue
            for subscription in [s for s in going if s.confirmed != NEVER and s.ending == NEVER]:
                self._close(going, subscription, row)
                fresh = SubscriptionRecord(life, subscription.predicate, row)
                begun.append((filter_, where, fresh))
                going.append(fresh)
        return begun

    def forget(self, life: int, filter_: str, where: str | None) -> None:
        """Nothing more happens to these: the life is over."""
        self._open.pop((life, filter_, where), None)

    @staticmethod
    def _close(going: list[SubscriptionRecord], subscription: SubscriptionRecord | None, row: int) -> None:
        if subscription is not None:
            subscription.ending = min(subscription.ending, row)
            subscription.ended = row
            going.remove(subscription)

    def _predicate(self, filter_: str, where: str | None) -> Predicate:
        known = self._predicates.get((filter_, where))
        if known is None:
            try:
                known = parse_predicate(filter_, where)
            except UsageError as error:
                raise UsageError(f"subscription {filter_!r}: {error}") from None
            self._predicates[filter_, where] = known
        return known
