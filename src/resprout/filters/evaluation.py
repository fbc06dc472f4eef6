"""Turns the nodes of a condition into one Python function, which says whether the condition is true.

Unknown counts as false here: `filters.nodes` explains why that is enough. The functions are closures over the names
and values of the condition; no text of a user is ever run.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from resprout.core.limits import Attributes, AttributeValue
from resprout.filters.like import matcher
from resprout.filters.nodes import And, Compare, CompareAttributes, ConditionNode, Like, Null, Or, Within

Test = Callable[[Attributes], bool]

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_NUMBER: Final = (int, float)
COMPILED_MAX: Final = 16
"""Parts of one `and` or `or` that are compiled. A compiled comparison takes some 370 bytes: of more parts than this,
comparisons are compiled for the moment in which they are tested, which takes four times as long."""


def test_of(node: ConditionNode) -> Test:
    """A function of a message's attributes that is true when the condition is."""
    if isinstance(node, And):
        return _all_of_many(node.parts) if len(node.parts) > COMPILED_MAX else _all([test_of(p) for p in node.parts])
    if isinstance(node, Or):
        return _any_of_many(node.parts) if len(node.parts) > COMPILED_MAX else _any([test_of(p) for p in node.parts])
    if isinstance(node, Compare):
        return _equals(node.name, node.value) if node.operator == "=" else _compares(node)
    if isinstance(node, CompareAttributes):
        return _compares_attributes(node)
    if isinstance(node, Within):
        return _outside(node) if node.negated else _inside(node)
    if isinstance(node, Like):
        return _is_like(node)
    return _is_null(node)


def kind_of(value: AttributeValue | None) -> type | None:
    """Values of one kind compare with each other: bool, float for all numbers, str. None for null and for NaN."""
    if isinstance(value, str):
        return str
    if isinstance(value, bool):
        return bool
    if isinstance(value, _NUMBER):
        return float if value == value else None
    return None


def hash_key(value: AttributeValue) -> object:
    """Equal for values that are equal in a condition, and only for those: in Python alone, True would equal 1."""
    return (value,) if isinstance(value, bool) else value


def _all(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda attributes: first(attributes) and second(attributes)

    def matches(attributes: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - a generator would cost more than the tests
            if not test(attributes):
                return False
        return True

    return matches


def _any(tests: list[Test]) -> Test:
    def matches(attributes: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - as above
            if test(attributes):
                return True
        return False

    return matches


def _all_of_many(parts: Sequence[ConditionNode]) -> Test:
    tests = _compact(parts)

    def matches(attributes: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - as above
            if not (test if callable(test) else test_of(test))(attributes):
                return False
        return True

    return matches


def _any_of_many(parts: Sequence[ConditionNode]) -> Test:
    tests = _compact(parts)

    def matches(attributes: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - as above
            if (test if callable(test) else test_of(test))(attributes):
                return True
        return False

    return matches


def _compact(parts: Sequence[ConditionNode]) -> list[Test | ConditionNode]:
    """Comparisons as they are; what takes long to compile, compiled."""
    return [test_of(part) if isinstance(part, And | Or | Like | Within) else part for part in parts]


def _equals(name: str, wanted: AttributeValue) -> Test:
    if isinstance(wanted, str):
        return lambda attributes: attributes.get(name) == wanted
    if isinstance(wanted, bool):
        return lambda attributes: attributes.get(name) is wanted

    def matches(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return value == wanted and not isinstance(value, bool)

    return matches


def _compares(node: Compare) -> Test:
    name, bound, holds = node.name, node.value, _OPERATORS[node.operator]
    kind = kind_of(bound)
    if kind is float and node.operator != "!=":  # the common case; NaN is on neither side of anything

        def number_matches(attributes: Attributes) -> bool:
            value = attributes.get(name)
            return isinstance(value, _NUMBER) and not isinstance(value, bool) and holds(value, bound)

        return number_matches

    def matches(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return kind_of(value) is kind and holds(value, bound)

    return matches


def _compares_attributes(node: CompareAttributes) -> Test:
    left, right, holds = node.left, node.right, _OPERATORS[node.operator]

    def matches(attributes: Attributes) -> bool:
        one, other = attributes.get(left), attributes.get(right)
        kind = kind_of(one)
        return kind is not None and kind is kind_of(other) and holds(one, other)

    return matches


def _inside(node: Within) -> Test:
    name, keys = node.name, frozenset(map(hash_key, node.values))

    def matches(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return value is not None and hash_key(value) in keys

    return matches


def _outside(node: Within) -> Test:
    """Differs from each value, so it is unknown for every attribute when the values are not all of one kind."""
    name, values = node.name, frozenset(node.values)
    kinds = {kind_of(value) for value in node.values}
    if len(kinds) > 1:
        return lambda attributes: False
    (kind,) = kinds

    def matches(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return kind_of(value) is kind and value not in values

    return matches


def _is_like(node: Like) -> Test:
    name, fits, wanted = node.name, matcher(node.pattern), not node.negated

    def matches(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return isinstance(value, str) and fits(value) is wanted

    return matches


def _is_null(node: Null) -> Test:
    name = node.name
    if node.negated:
        return lambda attributes: attributes.get(name) is not None
    return lambda attributes: attributes.get(name) is None
