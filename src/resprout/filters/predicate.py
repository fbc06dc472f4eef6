"""What one subscription asks for: a topic filter and perhaps a condition."""

from functools import lru_cache
from typing import Final

import msgspec

from resprout.core.errors import PeerError, UsageError
from resprout.core.names import Attributes
from resprout.filters.implication import implies
from resprout.filters.topics import check_filter, filter_covers, topic_matches
from resprout.filters.where import Condition, parse

PARSED_KEPT: Final = 4_096
"""Predicates that need not be parsed again."""
SHORT_CHARACTERS: Final = 256
"""Of the conditions of those: a parsed condition takes up to 60 times the memory of its text."""
LONG_KEPT: Final = 64
"""Longer conditions that need not be parsed again."""


class Predicate(msgspec.Struct, frozen=True):
    """Equal when filter and canonical condition are; sorted by filter, then by condition, none first."""

    filter: str
    where: Condition | None = None

    @property
    def where_text(self) -> str | None:
        """The canonical condition, as it travels."""
        return None if self.where is None else self.where.text

    def matches(self, topic: str, attributes: Attributes) -> bool:
        return topic_matches(self.filter, topic) and (self.where is None or self.where.matches(attributes))

    def covers(self, other: "Predicate") -> bool:
        """True only if everything that `other` matches is matched by this one. "No" may mean "not found out" where
        conditions differ in ways that `filters.implication` does not follow."""
        if not filter_covers(self.filter, other.filter):
            return False
        if self.where is None or self.where == other.where:
            return True
        return other.where is not None and implies(other.where.node, self.where.node)

    def __lt__(self, other: "Predicate") -> bool:
        return self._order < other._order

    def __le__(self, other: "Predicate") -> bool:
        return self._order <= other._order

    @property
    def _order(self) -> tuple[str, str]:
        return (self.filter, self.where.text if self.where is not None else "")


def parse_predicate(topic_filter: str, where: str | None = None) -> Predicate:
    """Check and read both parts. Raises UsageError (WhereError for the condition) with one line that says why."""
    if type(topic_filter) is str and (where is None or (type(where) is str and len(where) <= SHORT_CHARACTERS)):
        return _parsed(topic_filter, where)
    if type(where) is str:
        return Predicate(check_filter(topic_filter), _parsed_long(where))
    return _parse(topic_filter, where)  # which says what is wrong


def heard_predicate(topic_filter: str, where: str | None) -> Predicate:
    """What another broker says. PeerError when it cannot be read."""
    try:
        return parse_predicate(topic_filter, where)
    except UsageError as error:
        raise PeerError(str(error)) from None


def _parse(topic_filter: str, where: str | None) -> Predicate:
    return Predicate(check_filter(topic_filter), None if where is None else parse(where))


_parsed = lru_cache(maxsize=PARSED_KEPT)(_parse)
"""A wish passes every broker, and in a simulator all of them are in one process."""
_parsed_long = lru_cache(maxsize=LONG_KEPT)(parse)
