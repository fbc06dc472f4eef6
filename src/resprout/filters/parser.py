"""Reads a condition by recursive descent; `filters.predicate` says what the language means.

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
"""

import functools
import math
from collections.abc import Callable
from typing import Final, NoReturn

from resprout.core import limits
from resprout.core.limits import AttributeValue
from resprout.filters.like import check_pattern, has_wildcards, unescaped
from resprout.filters.nodes import (
    MIRRORED,
    OPPOSITE,
    And,
    Compare,
    CompareAttributes,
    Draft,
    Leaf,
    Like,
    Null,
    Or,
    Token,
    WhereError,
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
