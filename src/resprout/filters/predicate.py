r"""What one subscription asks for: a topic filter and, if wanted, a `where` condition.

Topic filters are MQTT's: `+` stands for one level, a last `#` for its parent and everything below it. As in MQTT, a
wildcard in the first level leaves out the topics that begin with `$`. `#` alone therefore matches exactly what `+/#`
matches, because every topic has a first level. Shared subscriptions (`$share/...`) do not exist here: such a filter is
an ordinary text. All functions on filters but `check_filter` take filters that it let pass.

Conditions are SQL-like, over the attributes of a message:

    amount >= 100 and currency in ('EUR', 'USD') and not urgent = false
    "sold by" like 'shop-%' and price between 9.5 and 1e3 or price is null

Signs are `= != <> < <= > >=`, words `and or not in like between is null true false` in any case. Attribute names are
case-sensitive, bare when they look like an identifier and in double quotes otherwise (`""` inside). Texts are in single
quotes (`''` inside), numbers are whole (64 bits) or decimal with an exponent if wanted. `not` binds closer than `and`,
`and` closer than `or`. Either side of a sign may be an attribute or a value, but not both a value.

Meaning, as in SQL:

- An attribute that the message does not have is null. Comparing with null is neither true nor false but *unknown*; so
  is comparing different kinds: text, number and true/false are three kinds. `not` of unknown is unknown, `and` is as
  false as its falsest side, `or` as true as its truest. Only a condition that is *true* matches.
- Numbers compare by value, whole or not, exactly. NaN, which only a hostile peer sends, is unknown in every comparison,
  though not null. Texts compare by code points. false is less than true.
- `x between a and b` is `x >= a and x <= b`. `x in (a, b)` is `x = a or x = b`; `x not in (a, b)` is
  `x != a and x != b`, hence never true when `a` and `b` are of different kinds.
- `x like p` matches the whole text, case-sensitively: `%` any text, `_` one character, `\` before either (or before
  itself) means that character. It is unknown for what is not text.

There is no arithmetic and there are no functions; `= null` is refused, since it would never be true.

`Price` is an upper bound of the steps that it costs to test a condition, known before anything is tested, so that a
broker can bound the work that it does for one subscriber inside one bundle. A step is one comparison: about 0.1 us.
"""

from functools import lru_cache
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.errors import NameRefusedError, PeerError, UsageError
from resprout.core.limits import Attributes
from resprout.filters.conditions import COMPILED_MAX, Test, read, test_of
from resprout.filters.implication import implies
from resprout.filters.like import steps_of
from resprout.filters.nodes import And, ConditionNode, Like, Or, WhereError

UNCOMPILED_STEPS: Final = 8
"""For a comparison that is compiled when it is tested."""
TEXT_CHARACTERS: Final = 1024

PARSED_KEPT: Final = 4_096
"""Predicates that need not be parsed again."""
SHORT_CHARACTERS: Final = 256
"""Of the conditions of those: a parsed condition takes up to 60 times the memory of its text."""
LONG_KEPT: Final = 64
"""Longer conditions that need not be parsed again."""


class Price(msgspec.Struct, frozen=True, gc=False):
    steps: int
    """For any message."""
    text_steps: int = 0
    """On top, for each 1024 characters of the longest text among the attributes."""

    def of(self, characters: int) -> int:
        """For a message whose longest text has so many characters."""
        return self.steps + self.text_steps * characters // TEXT_CHARACTERS

    @property
    def most(self) -> int:
        """For a message with the longest text that there may be."""
        return self.steps + self.text_steps


def price_of(node: ConditionNode) -> Price:
    if isinstance(node, And | Or):
        parts = [price_of(part) for part in node.parts]
        each = UNCOMPILED_STEPS if len(parts) > COMPILED_MAX else 0
        return Price(1 + sum(part.steps + each for part in parts), sum(part.text_steps for part in parts))
    if isinstance(node, Like):
        return Price(*steps_of(node.pattern))
    return Price(1)


class Condition:
    """A condition that was read. Equal, and equally hashed, when the canonical texts are."""

    __slots__ = ("matches", "node", "price", "text")

    def __init__(self, node: ConditionNode, text: str) -> None:
        self.node: Final = node
        self.text: Final = text
        """The canonical form: whatever says the same but for order, spelling and `not` is written like this."""
        self.matches: Final[Test] = test_of(node)
        """Whether the condition is true of a message's attributes."""
        self.price: Final = price_of(node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"parse({self.text!r})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return parse, (self.text,)


def parse(text: str) -> Condition:
    """Read a condition. Raises WhereError for anything that is not one, and nothing else."""
    if not isinstance(text, str):
        raise WhereError(f"a condition is a text, not {type(text).__name__}")
    draft = read(text)
    size = len(draft.text.encode())
    if size > limits.WHERE_BYTES:  # it must be readable again wherever the canonical text travels
        raise WhereError(f"a condition of {size} bytes when written in full; at most {limits.WHERE_BYTES}")
    condition = Condition(draft.node, draft.text)
    if condition.price.most > limits.WHERE_STEPS:
        raise WhereError(
            f"a condition that takes up to {condition.price.most} steps for one message; at most {limits.WHERE_STEPS}"
        )
    return condition


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
