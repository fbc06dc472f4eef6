import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import UsageError
from resprout.filters import implication
from resprout.filters.nodes import WhereError
from resprout.filters.predicate import Predicate, parse, parse_predicate
from tests.filters import reference
from tests.soak import cases

SETTINGS = settings(deadline=None, derandomize=True, max_examples=cases(100, 300))

VALUES = [None, True, False, 0, 1, 1.5, 2, 3, float("inf"), float("nan"), "", "a", "ab", "abc", "b", "B"]
constants = st.sampled_from([True, False, 0, 1, 1.5, 2, "a", "ab", "b"])
close_trees = reference.trees(["x", "y"], constants)
MESSAGES: list[reference.Values] = [
    {name: value for name, value in (("x", x), ("y", y)) if value is not None}
    for x, y in itertools.product(VALUES, repeat=2)
]


def covers(wide: str, narrow: str) -> bool:
    return parse_predicate("t", wide).covers(parse_predicate("t", narrow))


@SETTINGS
@given(close_trees, close_trees)
def test_what_is_covered_never_matches_more(one: reference.Tree, other: reference.Tree) -> None:
    wide, narrow = parse(reference.written(one)), parse(reference.written(other))
    both = parse(f"({reference.written(one)}) and ({reference.written(other)})")
    either = parse(f"({reference.written(one)}) or ({reference.written(other)})")
    for big, small in itertools.permutations([wide, narrow, both, either], 2):
        if Predicate("t", big).covers(Predicate("t", small)):
            assert [row for row in MESSAGES if small.matches(row) and not big.matches(row)] == []


@SETTINGS
@given(close_trees, close_trees)
def test_a_conjunction_is_covered_by_its_sides_and_a_disjunction_covers_them(
    one: reference.Tree, other: reference.Tree
) -> None:
    left, right = reference.written(one), reference.written(other)
    assert covers(left, f"({left}) and ({right})")
    assert covers(f"({left}) or ({right})", left)
    assert covers(f"({left}) or ({right})", f"({left}) and ({right})")


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x > 1", "x > 2"),
        ("x >= 1", "x > 1"),
        ("x > 1", "x = 2 and y = 1"),
        ("x between 0 and 10", "x between 1 and 9"),
        ("x between 0 and 10", "x > 0 and x < 10 and y like '%'"),
        ("x < 'm'", "x in ('a', 'b')"),
        ("x in (1, 2, 3)", "x in (3, 1)"),
        ("x in (1, 2, 3)", "x = 2"),
        ("x = 1 or x = 2 or y = 1", "x in (1, 2)"),
        ("x is not null", "x != 5"),
        ("x is not null", "x like '%a'"),
        ("x is not null", "x < y"),
        ("y is not null", "x < y"),
        ("x != 5", "x > 5"),
        ("x != 5", "x not in (4, 5, 6)"),
        ("x not in (4, 5)", "x > 5"),
        ("x like 'ab%'", "x like 'abc%'"),
        ("x like 'ab%'", "x like 'abc_e'"),
        ("x like '%b%'", "x = 'abc'"),
        ("x >= 'ab'", "x like 'abc%'"),
        ("x < 'b'", "x like 'a%'"),
        ("x > 1 or y > 1", "x > 2 and y < 0 or y > 2 and x < 0"),
        ("x < true", "x = false"),
    ],
)
def test_these_implications_are_found(wide: str, narrow: str) -> None:
    assert covers(wide, narrow)
    assert not covers(narrow, wide)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x = true", "x = 1"),
        ("x > 1", "x > 1 or y = 1"),
        ("x > 1", "x >= 1"),
        ("x > 1", "x > 'a'"),
        ("x != 1", "x != 2"),
        ("x != 1", "x > 'a'"),
        ("x != 1", "x >= 1"),
        ("x is null", "x != 1"),
        ("x is not null", "x is null"),
        ("x is not null", "y = 1"),
        ("x like 'ab_%'", "x like 'ab%'"),
        ("x like 'ab%'", "x not like 'abc%'"),
        ("x not in (1, 'a')", "x != 1"),
        ("x < 2", "y < 1"),
    ],
)
def test_these_are_no_implications(wide: str, narrow: str) -> None:
    assert not covers(wide, narrow)


def test_both_the_filter_and_the_condition_must_cover() -> None:
    everything = parse_predicate("#")
    some = parse_predicate("bank/+", "amount > 1")
    assert everything.covers(some)
    assert not some.covers(everything)
    assert not parse_predicate("bank/pt").covers(some)
    assert parse_predicate("bank/#", "amount > 0").covers(some)
    assert not parse_predicate("bank/#", "amount > 2").covers(some)


def test_the_search_for_an_implication_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that needs more steps than allowed is answered with a sound "no"."""
    wide = " and ".join(f"(a{number} = 1 or b = {number})" for number in range(100))
    narrow = " and ".join(f"c{number} = 1" for number in range(100)) + " and b > 0"
    assert not implication.implies(parse(narrow).node, parse(f"({wide}) and c99 = 1").node)
    many = parse(" or ".join(f"a = {number} and b = 1" for number in range(150)))
    assert not implication.implies(many.node, parse(" or ".join(f"c = {number}" for number in range(250))).node)
    alternatives = parse(" or ".join(f"a = {number}" for number in range(20))).node
    assert implication.implies(alternatives, alternatives)
    monkeypatch.setattr(implication, "STEPS_MAX", 20)
    assert not implication.implies(alternatives, alternatives), "it would be seen, but not so soon"


def test_predicates_are_values_with_an_order() -> None:
    one = parse_predicate("a/+", "x > 1 and y = 'b'")
    same = parse_predicate("a/+", "y='b' AND 1<x")
    assert one == same
    assert hash(one) == hash(same)
    assert one.where_text == "x > 1 and y = 'b'"
    plain = parse_predicate("a/+")
    assert plain.where_text is None
    assert sorted([parse_predicate("b"), one, plain, parse_predicate("a/+", "x = 1")]) == [
        plain, parse_predicate("a/+", "x = 1"), one, parse_predicate("b"),
    ]  # fmt: skip
    assert plain < one <= same
    assert one > plain
    assert same >= one


def test_a_predicate_matches_by_topic_and_attributes() -> None:
    predicate = parse_predicate("bank/+", "amount > 100")
    assert predicate.matches("bank/pt", {"amount": 101})
    assert not predicate.matches("bank/pt", {"amount": 100})
    assert not predicate.matches("bank/pt", {})
    assert not predicate.matches("shop/pt", {"amount": 101})
    assert parse_predicate("bank/+").matches("bank/pt", {})


def test_bad_parts_are_refused() -> None:
    with pytest.raises(UsageError, match="last level"):
        parse_predicate("#/a", "x = 1")
    with pytest.raises(WhereError, match="column 4"):
        parse_predicate("a", "x =")
