"""Conditions from text to nodes, and from nodes to a Python function; `filters.predicate` says what the language means.

The parser works by recursive descent:

    condition  = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation   = "not" negation | "(" condition ")" | comparison
    comparison = operand sign operand
               | operand [ "not" ] "between" operand "and" operand
               | attribute [ "not" ] "in" "(" value { "," value } ")"
               | attribute [ "not" ] "like" text
               | attribute "is" [ "not" ] "null"

Each "not" and "(" is one level of depth, and so is "not between", which is written out with an "or" in parentheses:
the canonical text is never deeper than what was read.

The function says whether the condition is true. Unknown counts as false here: `filters.nodes` explains why that is
enough. The functions are closures over the names and values of the condition; no text of a user is ever run.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from resprout.core import limits
from resprout.core.limits import Attributes, AttributeValue
from resprout.filters.like import check_pattern, has_wildcards, matcher, unescaped
from resprout.filters.nodes import (
    MIRRORED,
    OPPOSITE,
    And,
    Compare,
    CompareAttributes,
    ConditionNode,
    Draft,
    Leaf,
    Like,
    Null,
    Or,
    Token,
    WhereError,
    Within,
    joined,
    tokens_of,
    within,
)

_SIGNS: Final = {"=": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_VALUES: Final = ("text", "number", "true", "false")
_INT64: Final = range(-(2**63), 2**63)


def read(text: str) -> Draft:
    """The condition that the text says, with its canonical text. Raises WhereError, and nothing else, for any text."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise WhereError(f"found {text[error.start]!r}, which is not valid Unicode", error.start) from None
    if size > limits.WHERE_BYTES:
        raise WhereError(f"a condition of {size} bytes; at most {limits.WHERE_BYTES}")
    return _Parser(tokens_of(text)).whole()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    # -- tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self, *kinds: str) -> Token | None:
        """The next token if it is one of these."""
        token = self._tokens[self._place]
        if token.kind not in kinds:
            return None
        self._place += 1
        return token

    def _need(self, kind: str, expected: str) -> Token:
        return self._take(kind) or self._fail(expected)

    def _fail(self, expected: str) -> NoReturn:
        raise WhereError(f"expected {expected}, found {self._next.shown}", self._next.position)

    def _deeper(self, token: Token, reader: Callable[[bool], Draft], negated: bool) -> Draft:
        if self._depth == limits.WHERE_DEPTH:
            raise WhereError(f"nested deeper than {limits.WHERE_DEPTH} levels at {token.shown}", token.position)
        self._depth += 1
        draft = reader(negated)
        self._depth -= 1
        return draft

    # -- conditions; `negated` when an odd number of `not` is above

    def whole(self) -> Draft:
        draft = self._condition(negated=False)
        self._need("end", "'and', 'or' or the end")
        return draft

    def _condition(self, negated: bool) -> Draft:
        parts = [self._conjunction(negated)]
        while self._take("or"):
            parts.append(self._conjunction(negated))
        return joined(And if negated else Or, parts)

    def _conjunction(self, negated: bool) -> Draft:
        parts = [self._negation(negated)]
        while self._take("and"):
            parts.append(self._negation(negated))
        return joined(Or if negated else And, parts)

    def _negation(self, negated: bool) -> Draft:
        if token := self._take("not"):
            return self._deeper(token, self._negation, not negated)
        if token := self._take("("):
            draft = self._deeper(token, self._condition, negated)
            self._need(")", "'and', 'or' or ')'")
            return draft
        return self._comparison(negated)

    def _comparison(self, negated: bool) -> Draft:
        left = self._take("name", *_VALUES) or self._fail("an attribute, a value, 'not' or '('")
        if sign := self._take(*_SIGNS):
            return Draft.of(_compare(left, _SIGNS[sign.kind], self._operand(), negated))
        own_not = self._take("not")
        if own_not:
            negated = not negated
        if self._take("between"):
            between = functools.partial(self._between, left)
            return self._deeper(own_not, between, negated) if own_not else between(negated)
        if left.kind != "name":
            self._fail("'between'" if own_not else "= != < <= > >= or 'between' after a value")
        return Draft.of(self._about(_name(left), own_not is not None, negated))

    def _about(self, name: str, after_not: bool, negated: bool) -> Leaf:
        """What only an attribute can be asked."""
        if self._take("in"):
            return within(name, self._list(), negated)
        if self._take("like"):
            return _like(name, self._need("text", "a pattern in single quotes"), negated)
        if after_not:
            self._fail("'in', 'like' or 'between' after 'not'")
        if self._take("is"):
            is_not = self._take("not") is not None
            self._need("null", "'null'" if is_not else "'null' or 'not null'")
            return Null(name, is_not is not negated)
        return self._fail("a comparison (= != < <= > >= in like between is)")

    def _between(self, left: Token, negated: bool) -> Draft:
        low = self._operand()
        self._need("and", "'and' between the two bounds")
        bounds = [_compare(left, ">=", low, negated), _compare(left, "<=", self._operand(), negated)]
        return joined(Or if negated else And, list(map(Draft.of, bounds)))

    def _operand(self) -> Token:
        token = self._next
        if token.kind == "null":
            self._fail("an attribute or a value (nothing compares with null: write 'is null')")
        return self._take("name", *_VALUES) or self._fail("an attribute or a value")

    def _list(self) -> list[AttributeValue]:
        self._need("(", "'(' after 'in'")
        values: list[AttributeValue] = []
        while True:
            values.append(_value(self._take(*_VALUES) or self._fail("a value")))
            if self._take(")"):
                return values
            self._need(",", "',' or ')'")


def _compare(left: Token, sign: str, right: Token, negated: bool) -> Leaf:
    operator = OPPOSITE[sign] if negated else sign
    if left.kind == "name" and right.kind == "name":
        one, other = _name(left), _name(right)
        if one > other:
            return CompareAttributes(other, MIRRORED[operator], one)
        return CompareAttributes(one, operator, other)
    if left.kind == "name":
        return Compare(_name(left), operator, _value(right))
    if right.kind == "name":
        return Compare(_name(right), MIRRORED[operator], _value(left))
    raise WhereError(f"expected an attribute on one side of the comparison, found {right.shown}", right.position)


def _like(name: str, token: Token, negated: bool) -> Leaf:
    trouble = check_pattern(token.value)
    if trouble:
        raise WhereError(f"expected {trouble}, found {token.shown}", token.position)
    if not has_wildcards(token.value):
        return Compare(name, "!=" if negated else "=", unescaped(token.value))
    return Like(name, token.value, negated)


def _name(token: Token) -> str:
    if not token.value:
        raise WhereError("expected the name of an attribute, found an empty one", token.position)
    if len(token.value.encode()) > limits.ATTRIBUTE_NAME_BYTES:
        complaint = f"expected a name of at most {limits.ATTRIBUTE_NAME_BYTES} bytes, found {token.shown}"
        raise WhereError(complaint, token.position)
    return token.value


def _value(token: Token) -> AttributeValue:
    """A number that is whole becomes an int, so that equal values are written alike."""
    if token.kind == "text":
        return token.value
    if token.kind != "number":
        return token.kind == "true"
    if token.value.lstrip("+-").isdecimal():
        whole = int(token.value)
        if whole not in _INT64:
            raise WhereError(f"expected a whole number of at most 64 bits, found {token.shown}", token.position)
        return whole
    number = float(token.value)
    if math.isinf(number):
        raise WhereError(f"expected a number of ordinary size, found {token.shown}", token.position)
    return int(number) if number.is_integer() and int(number) in _INT64 else number


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
