"""A second reading of the `where` language, as plain as possible: trees as drawn, their text, and their truth.

Shares nothing with the package: no canonical form, no negation pushed down, three truth values (None is unknown).
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Tree = tuple[Any, ...]
Values = Mapping[str, str | int | float | bool]

NAMES = ["a", "b", "Total", "odd name", 'qu"ote', "and"]
TEXTS = ["", "x", "xy", "yx", "it's", "%", "_", "\\", "Ω", "ab%c"]
NUMBERS: list[int | float] = [0, 1, -1, 2, 0.5, -2.5, 1e300, 1e-7, 2**63 - 1, -(2**63), 2**53 + 1, 9007199254740992.0]
PATTERNS = ["x", "%", "_", "x%", "%x", "%x%", "x_", "_x%", "%x%y%", r"\%", r"%\_", r"\\", "Ω%", "", "%_%", r"x\y"]
SIGNS = ["=", "!=", "<>", "<", "<=", ">", ">="]

values = st.sampled_from([*TEXTS, *NUMBERS, True, False])
attributes = st.dictionaries(st.sampled_from(NAMES), values, max_size=len(NAMES))


def trees(names: list[str] = NAMES, constants: st.SearchStrategy[Any] = values, pairs: bool = True) -> Any:
    """Trees over these attributes; `pairs` lets two attributes be compared."""
    name = st.sampled_from(names)
    operand = st.one_of(st.tuples(st.just("name"), name), st.tuples(st.just("value"), constants))
    two = st.tuples(operand, operand).filter(
        lambda sides: "name" in (sides[0][0], sides[1][0]) and (pairs or sides[0][0] != sides[1][0])
    )
    compare = st.builds(lambda sides, sign: ("compare", sides[0], sign, sides[1]), two, st.sampled_from(SIGNS))
    bound = st.tuples(st.just("value"), constants)
    between = st.builds(
        lambda n, low, high, no: ("between", ("name", n), low, high, no), name, bound, bound, st.booleans()
    )
    within = st.tuples(st.just("in"), name, st.lists(constants, min_size=1, max_size=4), st.booleans())
    like = st.tuples(st.just("like"), name, st.sampled_from(PATTERNS), st.booleans())
    null = st.tuples(st.just("null"), name, st.booleans())
    leaf = st.one_of(compare, between, within, like, null)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
            st.tuples(st.just("not"), inner),
        ),
        max_leaves=8,
    )


# -- text


def written(tree: Tree, escape: str = "") -> str:
    """The tree with every part in parentheses; `escape` follows each pattern (SQLite wants the character named)."""
    kind = tree[0]
    if kind in ("and", "or"):
        return f" {kind} ".join(f"({written(part, escape)})" for part in tree[1])
    if kind == "not":
        return f"not ({written(tree[1], escape)})"
    if kind == "compare":
        return f"{_operand(tree[1])} {tree[2]} {_operand(tree[3])}"
    not_ = "not " if tree[-1] else ""
    if kind == "between":
        return f"{_operand(tree[1])} {not_}between {_operand(tree[2])} and {_operand(tree[3])}"
    name = _operand(("name", tree[1]))
    if kind == "in":
        return f"{name} {not_}in ({', '.join(_operand(('value', value)) for value in tree[2])})"
    if kind == "like":
        return f"{name} {not_}like {_operand(('value', tree[2]))}{escape}"
    return f"{name} is {not_}null"


def _operand(operand: Tree) -> str:
    kind, what = operand
    if kind == "name":
        return f'"{what.replace(chr(34), chr(34) * 2)}"'
    if isinstance(what, bool):
        return str(what).upper()
    return f"'{what.replace(chr(39), chr(39) * 2)}'" if isinstance(what, str) else repr(what)


# -- truth


def truth(tree: Tree, given: Values) -> bool | None:
    kind = tree[0]
    if kind == "and":
        return _both([truth(part, given) for part in tree[1]])
    if kind == "or":
        return _not(_both([_not(truth(part, given)) for part in tree[1]]))
    if kind == "not":
        return _not(truth(tree[1], given))
    if kind == "compare":
        return _compare(_look(tree[1], given), tree[2], _look(tree[3], given))
    if kind == "between":
        value = _look(tree[1], given)
        low = _compare(value, ">=", _look(tree[2], given))
        answer = _both([low, _compare(value, "<=", _look(tree[3], given))])
    else:
        answer = _about(kind, given.get(tree[1]), tree[2])
    return _not(answer) if tree[-1] else answer


def _about(kind: str, value: Any, argument: Any) -> bool | None:
    if kind == "null":
        return value is None
    if kind == "in":
        return _not(_both([_not(_compare(value, "=", one)) for one in argument]))
    return like(value, argument) if isinstance(value, str) else None


def like(text: str, pattern: str) -> bool:
    """By definition, one case after the other."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[cut:], pattern[1:]) for cut in range(len(text) + 1))
    if pattern[0] == "\\":
        return text[:1] == pattern[1] and like(text[1:], pattern[2:])
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def _look(operand: Tree, given: Values) -> Any:
    return given.get(operand[1]) if operand[0] == "name" else operand[1]


def _compare(one: Any, sign: str, other: Any) -> bool | None:
    if one is None or other is None or one != one or other != other or _kind(one) != _kind(other):
        return None
    if sign in ("!=", "<>"):
        return bool(one < other or other < one)
    less, more = one < other, one > other
    return bool((less and "<" in sign) or (more and ">" in sign) or (not less and not more and "=" in sign))


def _kind(value: Any) -> str:
    return "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _not(truth_value: bool | None) -> bool | None:
    return None if truth_value is None else not truth_value


def _both(truths: list[bool | None]) -> bool | None:
    if False in truths:
        return False
    return None if None in truths else True
