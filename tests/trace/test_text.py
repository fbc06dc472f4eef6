"""Attribute values survive the trace: kind, value and all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.limits import AttributeValue
from resprout.trace.schema import TraceError, from_text, texts, to_text, values
from tests.soak import cases

anything = st.one_of(
    st.text(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.from_regex(r"'*-?[0-9]*'*"),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("o'clock", "'o''clock'"), ("", "''"), ("'", "''''"), ("12", "'12'"), ("true", "'true'"),
        (12, "12"), (-1, "-1"), (1.0, "1.0"), (1e16, "1e+16"), (-0.0, "-0.0"), (5e-324, "5e-324"),
        (float("inf"), "inf"), (float("-inf"), "-inf"), (True, "true"), (False, "false"),
    ],
)  # fmt: skip
def test_every_kind_has_its_own_form(value: AttributeValue, text: str) -> None:
    assert to_text(value) == text
    assert from_text(text) == value
    assert type(from_text(text)) is type(value)


@settings(deadline=None, derandomize=True, max_examples=cases(100, 300))
@given(anything)
def test_what_is_written_is_read_back_exactly(value: AttributeValue) -> None:
    back = from_text(to_text(value))
    assert (type(back), repr(back)) == (type(value), repr(value))


@settings(deadline=None, derandomize=True, max_examples=cases(70, 200))
@given(st.lists(anything, min_size=2, max_size=2))
def test_different_values_have_different_texts(pair: list[AttributeValue]) -> None:
    one, other = pair
    same = type(one) is type(other) and repr(one) == repr(other)
    assert (to_text(one) == to_text(other)) == same


@pytest.mark.parametrize(
    "text", ["", "ok", "'", "'a", "a'", "'a'b'", "'''", "1.", ".5", "+1", "nan", "1_000", "١", "True", "0x1", " 1"]
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(TraceError, match="attribute value"):
        from_text(text)


def test_a_cell_is_empty_when_there_are_no_attributes() -> None:
    assert texts({}) is None
    assert values(None) == {}
    assert values(texts({"a": 1, "b": "x"})) == {"a": 1, "b": "x"}
