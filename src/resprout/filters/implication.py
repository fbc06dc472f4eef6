"""Whether one condition can only be true where another is: sound, not complete.

"No" may mean "not found out". Found are: equal conditions, parts of a conjunction, alternatives of a disjunction, and
comparisons of one attribute with values (equality, `in`, ranges, `!=`, `is not null`, the fixed beginning of a `like`).
Several comparisons are not combined into one (`a >= 5 and a <= 5` is not seen to imply `a = 5`).

The search stops with "no" after `STEPS_MAX` steps, so that conditions made to be slow are not.
"""

from typing import Final

from resprout.core.limits import AttributeValue
from resprout.filters.access import Interval, interval_of
from resprout.filters.conditions import kind_of, test_of
from resprout.filters.nodes import (
    And,
    Compare,
    CompareAttributes,
    ConditionNode,
    Leaf,
    Like,
    Null,
    Or,
    Within,
    render_leaf,
)

STEPS_MAX: Final = 2000


def implies(narrow: ConditionNode, wide: ConditionNode) -> bool:
    """True only if every message that makes `narrow` true makes `wide` true."""
    return _Search().implies(narrow, wide)


class _Search:
    def __init__(self) -> None:
        self._steps = 0

    def implies(self, narrow: ConditionNode, wide: ConditionNode) -> bool:
        self._steps += 1
        if self._steps > STEPS_MAX:
            return False
        if isinstance(narrow, Or):
            return all(self.implies(part, wide) for part in narrow.parts)
        if isinstance(wide, And):
            return all(self.implies(narrow, part) for part in wide.parts)
        if isinstance(wide, Or):
            if any(self.implies(narrow, part) for part in wide.parts):
                return True
            if isinstance(narrow, Within) and not narrow.negated:
                return all(self.implies(Compare(narrow.name, "=", value), wide) for value in narrow.values)
        if isinstance(narrow, And):
            return any(self.implies(part, wide) for part in narrow.parts)
        return not isinstance(wide, Or) and _leaf_implies(narrow, wide)


def _leaf_implies(narrow: Leaf, wide: Leaf) -> bool:
    if narrow == wide and render_leaf(narrow) == render_leaf(wide):  # in Python alone, true would equal 1
        return True
    if isinstance(wide, Null):
        return wide.negated and _needs(narrow, wide.name)
    if isinstance(wide, CompareAttributes) or isinstance(narrow, CompareAttributes | Null) or narrow.name != wide.name:
        return False
    only = _only_values(narrow)
    if only is not None:
        test = test_of(wide)
        return all(test({wide.name: value}) for value in only)
    excluded = _excluded_values(wide)
    if excluded is not None:
        return _avoids(narrow, excluded)
    inner, outer = interval_of(narrow), interval_of(wide)
    return inner is not None and outer is not None and outer.exact and outer.contains(inner)


def _needs(leaf: Leaf, name: str) -> bool:
    """Whether the leaf is never true when the attribute is null."""
    if isinstance(leaf, CompareAttributes):
        return name in (leaf.left, leaf.right)
    return leaf.name == name and not (isinstance(leaf, Null) and not leaf.negated)


def _only_values(leaf: Compare | Within | Like) -> tuple[AttributeValue, ...] | None:
    if isinstance(leaf, Compare) and leaf.operator == "=":
        return (leaf.value,)
    if isinstance(leaf, Within) and not leaf.negated:
        return leaf.values
    return None


def _excluded_values(leaf: Compare | Within | Like) -> tuple[AttributeValue, ...] | None:
    if isinstance(leaf, Compare) and leaf.operator == "!=":
        return (leaf.value,)
    if isinstance(leaf, Within) and leaf.negated:
        return leaf.values
    return None


def _avoids(narrow: Compare | Within | Like, excluded: tuple[AttributeValue, ...]) -> bool:
    """Whether what makes `narrow` true is comparable with all of these values and equal to none."""
    kinds = {kind_of(value) for value in excluded}
    known = _excluded_values(narrow)
    if known is not None:
        return {kind_of(value) for value in known} == kinds and set(excluded) <= set(known)
    interval: Interval | None = interval_of(narrow)
    return interval is not None and kinds == {interval.kind} and not any(map(interval.holds, excluded))
