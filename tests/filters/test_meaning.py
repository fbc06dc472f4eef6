import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.filters.predicate import parse
from tests.filters import reference
from tests.soak import cases

SETTINGS = settings(deadline=None, derandomize=True, max_examples=cases(100, 300))

# One kind per column, as SQLite orders kinds where this language has no answer; no infinities and no 64-bit edges.
NUMBERS = ["n", "m"]
TEXTS = ["t", "u"]
FLAGS = ["f", "g"]
number = st.sampled_from([0, 1, -1, 2, 0.5, -2.5, 1e10, 2**53 + 1, 9007199254740992.0])
text = st.sampled_from(reference.TEXTS)
SQLITE_ESCAPE = r" escape '\'"


def without_like(tree: reference.Tree) -> bool:
    if tree[0] in ("and", "or"):
        return all(map(without_like, tree[1]))
    return without_like(tree[1]) if tree[0] == "not" else tree[0] != "like"


number_trees = reference.trees(NUMBERS, number).filter(without_like)
flag_trees = reference.trees(FLAGS, st.booleans()).filter(without_like)
sqlite_trees = st.recursive(
    st.one_of(number_trees, flag_trees, reference.trees(TEXTS, text)),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=3,
)
rows = st.fixed_dictionaries(
    {},
    optional={**dict.fromkeys(NUMBERS, number), **dict.fromkeys(TEXTS, text), **dict.fromkeys(FLAGS, st.booleans())},
)


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("pragma case_sensitive_like = on")
    return connection


@SETTINGS
@given(reference.trees(), reference.attributes)
def test_only_what_is_true_in_three_valued_logic_matches(tree: reference.Tree, attributes: reference.Values) -> None:
    assert parse(reference.written(tree)).matches(attributes) is (reference.truth(tree, attributes) is True)


@SETTINGS
@given(reference.trees(), reference.attributes)
def test_a_condition_and_its_negation_never_both_match(tree: reference.Tree, attributes: reference.Values) -> None:
    truth = reference.truth(tree, attributes)
    negation = parse(f"not ({reference.written(tree)})")
    assert negation.matches(attributes) is (truth is False)


@SETTINGS
@given(sqlite_trees, rows)
def test_sqlite_agrees(database: sqlite3.Connection, tree: reference.Tree, row: reference.Values) -> None:
    columns = [*NUMBERS, *TEXTS, *FLAGS]
    source = ", ".join(f"? as {column}" for column in columns)
    query = f"select {reference.written(tree, escape=SQLITE_ESCAPE)} from (select {source})"
    (answer,) = database.execute(query, [row.get(column) for column in columns]).fetchone()
    assert parse(reference.written(tree)).matches(row) is (answer == 1)


@pytest.mark.parametrize(
    ("condition", "matching", "failing"),
    [
        ("a = 1", [{"a": 1}, {"a": 1.0}], [{"a": True}, {"a": "1"}, {"a": 2}, {}]),
        ("a = true", [{"a": True}], [{"a": 1}, {"a": 1.0}, {"a": "true"}, {"a": False}, {}]),
        ("a != 1", [{"a": 2}, {"a": 0.5}], [{"a": 1}, {"a": True}, {"a": "x"}, {}]),
        ("not a = 'x'", [{"a": "y"}], [{"a": "x"}, {"a": 1}, {}]),
        ("a > 9007199254740992.0", [{"a": 2**53 + 1}], [{"a": 2**53}, {"a": "z"}, {"a": True}]),
        ("a < 'b'", [{"a": "a"}, {"a": "B"}, {"a": ""}], [{"a": "b"}, {"a": 0}, {}]),
        ("a < true", [{"a": False}], [{"a": True}, {"a": 0}]),
        ("a in (1, 'x')", [{"a": 1}, {"a": "x"}], [{"a": True}, {"a": 2}, {}]),
        ("a not in (1, 2)", [{"a": 3}], [{"a": 1}, {"a": "x"}, {"a": True}, {}]),
        ("a not in (1, 'x')", [], [{"a": 3}, {"a": "y"}, {}]),
        ("a is null or b = 1", [{}, {"a": 1, "b": 1}], [{"a": 1}, {"a": 1, "b": 2}]),
        ("a like '_b%'", [{"a": "ab"}, {"a": "ΩbΩ"}], [{"a": "aB"}, {"a": "b"}, {"a": 5}, {}]),
        ("a < b", [{"a": 1, "b": 1.5}, {"a": "x", "b": "y"}], [{"a": 1}, {"a": 1, "b": "2"}, {"a": True, "b": 2}]),
        ("2 between a and b", [{"a": 1, "b": 2}], [{"a": 3, "b": 4}, {"a": 1}]),
        ("a = 1 AND NOT (B = 2 oR c IS Not Null)", [{"a": 1, "B": 3}], [{"a": 1, "b": 3}, {"a": 1, "B": 3, "c": 1}]),
    ],
)
def test_examples(condition: str, matching: list[reference.Values], failing: list[reference.Values]) -> None:
    test = parse(condition).matches
    assert [row for row in matching if not test(row)] == []
    assert [row for row in failing if test(row)] == []


def test_nan_is_unknown_in_every_comparison_but_not_null() -> None:
    nan = {"a": float("nan"), "b": 1.0}
    for text in (
        "a = 1",
        "a != 1",
        "a < 1",
        "a >= 1",
        "a in (1, 2)",
        "a not in (1, 2)",
        "a != b",
        "a = a",
        "a is null",
    ):
        assert not parse(text).matches(nan), text
    assert parse("a is not null").matches(nan)


def test_infinity_is_an_ordinary_end_of_the_numbers() -> None:
    assert parse("a > 1e308").matches({"a": float("inf")})
    assert parse("a != 1 and a < -1e308").matches({"a": float("-inf")})
