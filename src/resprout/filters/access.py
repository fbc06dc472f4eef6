"""Where an index may keep a condition so that every message that makes it true leads to it.

A key says something about one attribute that a message must have. An *alternative* is a set of keys, one of which any
matching message has; a condition may have several alternatives (one for each part of a conjunction), and the index
takes whichever is most selective. Keys may lead to too much, never to too little: whoever follows them tests the
condition itself.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from resprout.filters.bounds import Interval, interval_of
from resprout.filters.evaluation import hash_key
from resprout.filters.nodes import And, Compare, CompareAttributes, ConditionNode, Leaf, Null, Or, Within

Number: TypeAlias = int | float
INFINITE: Final = float("inf")
_RANK_BYTES: Final = 8


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
