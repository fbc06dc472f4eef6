"""The range of values that a comparison leaves to an attribute, for whoever reasons about ranges."""

from typing import Any

import msgspec

from resprout.core.names import AttributeValue
from resprout.filters.evaluation import kind_of
from resprout.filters.like import fixes_only_the_beginning, literal_prefix
from resprout.filters.nodes import Compare, Leaf, Like

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
