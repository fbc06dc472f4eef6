"""What one subscription asks for: a topic filter and perhaps a condition.

Topic filters are MQTT's: `+` stands for one level, a last `#` for its parent and everything below it. As MQTT has it, a
wildcard in the first level leaves out the topics that begin with `$`. `#` alone therefore matches exactly what `+/#`
matches, because every topic has a first level. Shared subscriptions (`$share/...`) do not exist here: such a filter is
an ordinary text.

All functions on filters but `check_filter` take filters that it let pass.
"""

from functools import lru_cache
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.errors import NameRefusedError, PeerError, UsageError
from resprout.core.names import Attributes
from resprout.filters.implication import implies
from resprout.filters.where import Condition, parse

PARSED_KEPT: Final = 4_096
"""Predicates that need not be parsed again."""
SHORT_CHARACTERS: Final = 256
"""Of the conditions of those: a parsed condition takes up to 60 times the memory of its text."""
LONG_KEPT: Final = 64
"""Longer conditions that need not be parsed again."""


def check_filter(text: str) -> str:
    """The filter itself, or a NameRefusedError (a UsageError) that says what is wrong with it."""
    if not isinstance(text, str) or not text:
        raise NameRefusedError(f"a topic filter must be a text that is not empty, not {text!r}")
    shown = repr(text if len(text) <= 60 else text[:60] + "...")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise NameRefusedError(f"topic filter {shown} is not valid Unicode") from None
    if size > limits.TOPIC_BYTES:
        raise NameRefusedError(f"topic filter {shown} is longer than {limits.TOPIC_BYTES} bytes")
    if "\0" in text:
        raise NameRefusedError(f"topic filter {shown} holds a null character")
    levels = text.split("/")
    if len(levels) > limits.TOPIC_LEVELS:
        raise NameRefusedError(f"topic filter {shown} has more than {limits.TOPIC_LEVELS} levels")
    for level in levels:
        if len(level) > 1 and ("+" in level or "#" in level):
            raise NameRefusedError(f"topic filter {shown}: a wildcard must be alone in its level, not in {level!r}")
    if "#" in levels[:-1]:
        raise NameRefusedError(f"topic filter {shown}: '#' may only be the last level")
    return text


def is_plain(topic_filter: str) -> bool:
    """Whether it names a single topic."""
    return "+" not in topic_filter and "#" not in topic_filter


def topic_matches(topic_filter: str, topic: str) -> bool:
    """Whether a publication on the topic is asked for."""
    if topic_filter == topic:
        return True
    wanted = topic_filter.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    levels = topic.split("/")
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place == len(levels) or level not in ("+", levels[place]):
            return False
    return len(wanted) == len(levels)


def filter_covers(wide: str, narrow: str) -> bool:
    """Whether every topic that `narrow` matches is matched by `wide`: exact, both ways."""
    if wide == narrow:
        return True
    wanted, given = _spelled_out(wide), _spelled_out(narrow)
    if wanted[0] == "+" and given[0].startswith("$"):
        return False
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        # A '#' in `narrow` also matches its parent, which is too short for another level of `wide`.
        if place == len(given) or given[place] == "#" or level not in ("+", given[place]):
            return False
    return len(wanted) == len(given)


def _spelled_out(topic_filter: str) -> list[str]:
    return ["+", "#"] if topic_filter == "#" else topic_filter.split("/")


def placement_of(topic_filter: str) -> str:
    """Where a filter has wildcards, and which: two filters with the same placement never match the same topic, unless
    they are equal."""
    levels = topic_filter.split("/")
    return "".join([level if level in ("+", "#") else "." for level in levels])


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
