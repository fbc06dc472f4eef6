"""Where an index may keep a condition so that every message that makes it true leads to it.

A key says something about one attribute that a message must have. An *alternative* is a set of keys, one of which any
matching message has; a condition may have several alternatives (one for each part of a conjunction), and the index
takes whichever is most selective. Keys may lead to too much, never to too little: the caller tests the condition
itself.

`interval_of` is the range of values that a comparison leaves to an attribute.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from resprout.core.limits import AttributeValue
from resprout.filters.conditions import hash_key, kind_of
from resprout.filters.like import fixes_only_the_beginning, literal_prefix
from resprout.filters.nodes import And, Compare, CompareAttributes, ConditionNode, Leaf, Like, Null, Or, Within

Number: TypeAlias = int | float
INFINITE: Final = float("inf")
_RANK_BYTES: Final = 8

_LAST_CHARACTER = 0x10FFFF


class Interval(msgspec.Struct, frozen=True):
    """Values of one kind between two ends; an end that is None is open to all of them."""

    kind: type
    low: Any
    low_included: bool
    high: Any
    high_included: bool
    exact: bool
    """Whether the comparison is true for everything in here, not merely for nothing outside."""

    def holds(self, value: AttributeValue) -> bool:
        """For a value of the same kind."""
        if self.low is not None and (value < self.low or (value == self.low and not self.low_included)):
            return False
        return self.high is None or value < self.high or (value == self.high and self.high_included)

    def contains(self, inner: "Interval") -> bool:
        if self.kind is not inner.kind:
            return False
        if self.low is not None and (
            inner.low is None
            or inner.low < self.low
            or (inner.low == self.low and inner.low_included and not self.low_included)
        ):
            return False
        return self.high is None or (
            inner.high is not None
            and (
                inner.high < self.high or (inner.high == self.high and (self.high_included or not inner.high_included))
            )
        )


def interval_of(leaf: Leaf) -> Interval | None:
    """Of a comparison by order, or of a `like` that fixes how the text begins; None for everything else."""
    if isinstance(leaf, Compare):
        kind = kind_of(leaf.value)
        assert kind is not None  # a value that was read is never NaN
        if leaf.operator in (">", ">="):
            return Interval(kind, leaf.value, leaf.operator == ">=", None, False, True)
        if leaf.operator in ("<", "<="):
            return Interval(kind, None, False, leaf.value, leaf.operator == "<=", True)
    if isinstance(leaf, Like) and not leaf.negated and (prefix := literal_prefix(leaf.pattern)):
        return Interval(str, prefix, True, _after(prefix), False, fixes_only_the_beginning(leaf.pattern))
    return None


def _after(prefix: str) -> str | None:
    """The least text above all that begin like this, if there is one."""
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None


class Equal(msgspec.Struct, frozen=True):
    """The attribute has this value (a `hash_key`)."""

    name: str
    value: object


class ValueRange(msgspec.Struct, frozen=True):
    """The attribute lies between two numbers, both included; for texts, its `text_rank` does. A range whose ends are
    the wrong way round belongs to a condition that nothing can meet."""

    name: str
    of_text: bool
    low: Number
    high: Number


class Present(msgspec.Struct, frozen=True):
    """The attribute is not null."""

    name: str


AccessKey: TypeAlias = Equal | ValueRange | Present
Alternative: TypeAlias = tuple[AccessKey, ...]

KEYS_MAX: Final = 64
"""Keys of one alternative: each takes some 400 bytes in the index."""

_PREFERENCE: Final = {Equal: 0, ValueRange: 1, Present: 2}


def alternatives_of(node: ConditionNode) -> list[Alternative]:
    """Every way to index the condition; none when it may be true of a message without attributes."""
    found: list[Alternative] = []
    ranges: dict[tuple[str, bool], ValueRange] = {}
    for part in node.parts if isinstance(node, And) else (node,):
        if isinstance(part, Or):
            found += _of_any(part)
        elif not isinstance(part, And):
            interval = interval_of(part)
            if interval is not None and interval.kind is not bool:
                assert not isinstance(part, CompareAttributes)
                _narrow(ranges, _range(part.name, interval))
            else:
                found += _of_leaf(part)
    return found + [(span,) for span in ranges.values()]


def preference(alternative: Alternative) -> int:
    """The less, the fewer messages are likely to lead there by mistake."""
    return max(_PREFERENCE[type(key)] for key in alternative)


def text_rank(text: str) -> int:
    """A number that never falls when the text rises: its first bytes (UTF-8 sorts like code points)."""
    return int.from_bytes(text[:_RANK_BYTES].encode("utf-8", "surrogatepass")[:_RANK_BYTES].ljust(_RANK_BYTES, b"\0"))


def _of_any(node: Or) -> Iterable[Alternative]:
    """One alternative that holds the best keys of each branch, if every branch has some."""
    keys: dict[AccessKey, None] = {}
    for part in node.parts:
        options = alternatives_of(part)
        if not options or len(keys) > KEYS_MAX:
            return []
        best = min(options, key=preference)
        keys.update(dict.fromkeys(best))
    return [tuple(keys)] if len(keys) <= KEYS_MAX else []


def _of_leaf(leaf: Leaf) -> Iterable[Alternative]:
    if isinstance(leaf, CompareAttributes):
        return [(Present(leaf.left),), (Present(leaf.right),)]
    if isinstance(leaf, Compare) and leaf.operator == "=":
        return [(Equal(leaf.name, hash_key(leaf.value)),)]
    if isinstance(leaf, Within) and not leaf.negated and len(leaf.values) <= KEYS_MAX:
        return [tuple(Equal(leaf.name, hash_key(value)) for value in leaf.values)]
    if isinstance(leaf, Null) and not leaf.negated:
        return []
    return [(Present(leaf.name),)]


def _range(name: str, interval: Interval) -> ValueRange:
    low, high = interval.low, interval.high
    of_text = interval.kind is str
    if of_text:
        low = None if low is None else text_rank(low)
        high = None if high is None else text_rank(high)
    return ValueRange(name, of_text, -INFINITE if low is None else low, INFINITE if high is None else high)


def _narrow(ranges: dict[tuple[str, bool], ValueRange], span: ValueRange) -> None:
    place = (span.name, span.of_text)
    known = ranges.get(place, span)
    ranges[place] = ValueRange(span.name, span.of_text, max(known.low, span.low), min(known.high, span.high))
