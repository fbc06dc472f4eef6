import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.filters.nodes import WhereError
from resprout.filters.predicate import parse
from tests.filters import reference
from tests.soak import cases

SETTINGS = settings(deadline=None, derandomize=True, max_examples=cases(130, 400))

snippets = st.lists(
    st.sampled_from(
        ["a", "and", "or", "NOT", "in", "like", "is", "null", "between", "true", "(", ")", ",", "=", "<>", "<", "!",
         "'", "'x'", '"', '"y"', "1", "-", "-2", ".5", "1e9", "1e", "9" * 30, " ", "\n", "\0", "é", "\ud800", "\\", "%"]
    ),
    max_size=14,
)  # fmt: skip


@SETTINGS
@given(reference.trees())
def test_the_canonical_text_reads_back_as_the_same_condition(tree: reference.Tree) -> None:
    condition = parse(reference.written(tree))
    again = parse(condition.text)
    assert again == condition
    assert again.text == condition.text
    assert again.node == condition.node
    assert hash(again) == hash(condition)


@SETTINGS
@given(st.one_of(st.text(), snippets.map("".join), snippets.map(" ".join)))
def test_no_text_raises_anything_but_a_where_error_in_one_line(text: str) -> None:
    try:
        parse(text)
    except WhereError as error:
        assert len(str(error).splitlines()) == 1
        assert 0 <= error.position <= len(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a=1", "a = 1"),
        ("1 < a", "a > 1"),
        ("b > a", "a < b"),
        ("a <> 1.0", "a != 1"),
        ("a = -0.0", "a = 0"),
        ("a = +.5e1", "a = 5"),
        ("a = 1E-7", "a = 1e-07"),
        ("NOT a = TRUE", "a != true"),
        ("not (a = 1 and b is null)", "a != 1 or b is not null"),
        ("not not a like 'x%'", "a like 'x%'"),
        ("a in (2, 1, 2.0)", "a in (1, 2)"),
        ("a not in ('x')", "a != 'x'"),
        (r"a like '100\%'", "a = '100%'"),
        ("a between 1 and 2", "a <= 2 and a >= 1"),
        ("a not between 1 and 2 and b = 1", "(a < 1 or a > 2) and b = 1"),
        ("b = 1 and (a = 1 and b = 1)", "a = 1 and b = 1"),
        ("a = 1 or b = 2 and c = 3", "a = 1 or b = 2 and c = 3"),
        ("(a = 1 or b = 2) and c = 3", "(a = 1 or b = 2) and c = 3"),
        ('"a" = \'it\'\'s\'', "a = 'it''s'"),
        ('"two words" = 1 and "OR" = 2', '"OR" = 2 and "two words" = 1'),
        ('"say ""hi""" = 3', '"say ""hi""" = 3'),
        ("été = 1", "été = 1"),
    ],
)  # fmt: skip
def test_what_says_the_same_is_written_alike(text: str, canonical: str) -> None:
    assert parse(text).text == canonical


def test_kinds_are_kept_apart_where_python_would_not() -> None:
    assert parse("a = 1") != parse("a = true")
    assert parse("a = '1'") != parse("a = 1")
    assert parse("a in (0, false)").text == "a in (0, false)"


@pytest.mark.parametrize(
    ("text", "column", "expected", "found"),
    [
        ("", 1, "an attribute, a value, 'not' or '('", "the end"),
        ("a", 2, "a comparison", "the end"),
        ("a =", 4, "an attribute or a value", "the end"),
        ("a = 1 b", 7, "'and', 'or' or the end", "'b'"),
        ("a = 1)", 6, "'and', 'or' or the end", "')'"),
        ("(a = 1", 7, "'and', 'or' or ')'", "the end"),
        ("a == 1", 4, "an attribute or a value", "'='"),
        ("a in 5", 6, "'(' after 'in'", "'5'"),
        ("a in ()", 7, "a value", "')'"),
        ("a in (1 2)", 9, "',' or ')'", "'2'"),
        ("a in (b)", 7, "a value", "'b'"),
        ("a in (null)", 7, "a value", "'null'"),
        ("a like 5", 8, "a pattern in single quotes", "'5'"),
        ("a like 'x\\'", 8, "a character after the last '\\'", "'x"),
        ("a between 1", 12, "'and' between the two bounds", "the end"),
        ("a is 5", 6, "'null' or 'not null'", "'5'"),
        ("a is not 5", 10, "'null'", "'5'"),
        ("a not = 1", 7, "'in', 'like' or 'between' after 'not'", "'='"),
        ("5 in (1)", 3, "= != < <= > >= or 'between'", "'in'"),
        ("1 = 1", 5, "an attribute on one side", "'1'"),
        ("a = null", 5, "write 'is null'", "'null'"),
        ("a = 1or b = 2", 6, "a space or an operator", "'o'"),
        ("a = 1.2.3", 8, "a space or an operator", "'.'"),
        ("a = 'it''s", 5, "a closing '", "the end"),
        ('a = 1 and "b', 11, 'a closing "', "the end"),
        ("a = 9223372036854775808", 5, "at most 64 bits", "'9223372036854775808'"),
        ("a = -1e999", 5, "a number of ordinary size", "'-1e999'"),
        ('"" = 1', 1, "the name of an attribute", "an empty one"),
        ("a\n=\n@", 5, "an attribute, a value or an operator", "'@'"),
        ("a ! b", 3, "an attribute, a value or an operator", "'!'"),
        ("x" * 129 + " = 1", 1, "a name of at most 128 bytes", "xxx"),
        ("a = '\ud800'", 6, "", "not valid Unicode"),
        ("(" * 33 + "a = 1", 33, "", "nested deeper than 32 levels"),
        ("not " * 33 + "a = 1", 129, "", "nested deeper than 32 levels"),
    ],
)
def test_an_error_tells_what_was_expected_what_was_found_and_where(
    text: str, column: int, expected: str, found: str
) -> None:
    with pytest.raises(WhereError) as trouble:
        parse(text)
    line = str(trouble.value)
    assert isinstance(trouble.value, UsageError)
    assert trouble.value.position == column - 1
    assert line.endswith(f"(column {column})")
    assert expected in line
    assert found in line


def test_a_condition_is_text() -> None:
    with pytest.raises(WhereError, match="a text, not NoneType"):
        parse(None)  # type: ignore[arg-type]


def test_the_limit_of_bytes_holds_for_the_text_and_for_its_canonical_form() -> None:
    longest = "a = '" + "x" * (limits.WHERE_BYTES - 6) + "'"
    assert parse(longest).text == longest
    with pytest.raises(WhereError, match=r"4097 bytes; at most 4096$"):
        parse(longest + " ")
    with pytest.raises(WhereError, match="when written in full"):
        parse(" or ".join(f"a<{number}" for number in range(450)))


def test_the_deepest_condition_is_read_and_its_canonical_text_too() -> None:
    for step in ("(", "not "):
        text = step * limits.WHERE_DEPTH + "a = 1" + ")" * limits.WHERE_DEPTH * (step == "(")
        assert parse(text).text == "a = 1"
    step = "x = 1 and (y = 1 or "  # needs its parentheses in the canonical text too
    deepest = step * limits.WHERE_DEPTH + "z = 1" + ")" * limits.WHERE_DEPTH
    assert parse(parse(deepest).text) == parse(deepest)
    depth = limits.WHERE_DEPTH - 1
    written_out = step * depth + "x = 1 and z not between 1 and 2" + ")" * depth
    assert parse(parse(written_out).text) == parse(written_out)
    with pytest.raises(WhereError, match="nested deeper than 32 levels at 'not'"):
        parse("x = 1 and (y = 1 or " + written_out + ")")


def test_conditions_and_errors_survive_copying_and_pickling() -> None:
    condition = parse("a > 1 and b like '%x_'")
    for twin in (copy.deepcopy(condition), pickle.loads(pickle.dumps(condition))):
        assert twin == condition
        assert twin.matches({"a": 2, "b": "xy"})
    error = WhereError("expected this, found that", 4)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_condition_that_would_take_long_to_test_is_refused() -> None:
    """Attack 5: the shortest pattern that is matched character by character, as often as it fits."""
    pattern = "%" + "_a" * 40 + "%"
    assert parse(f"a like '{pattern}'").price.most <= limits.WHERE_STEPS
    text = " or ".join(f"a{n} like '{pattern}'" for n in range(30))
    with pytest.raises(WhereError, match=r"takes up to \d+ steps for one message; at most 8448"):
        parse(text)
