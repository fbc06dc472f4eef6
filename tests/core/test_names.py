"""What may be called what, and that every refusal is one short line."""

import enum
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.errors import NameRefusedError, PayloadRefusedError, UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue, check_attributes, check_keys, check_name, check_payload, check_topic
from tests.soak import cases

LINE_LETTERS_MAX = 300
LONE_SURROGATE = "a\ud800"


class Colour(enum.StrEnum):
    RED = "red"


class Exact(float):
    """As a NumPy scalar is: a float by descent, which encoders do not know."""


class Many(int):
    pass


class Label(str):
    __slots__ = ()


@pytest.mark.parametrize("name", ["b", "B7", "teller-1.a_b", "0", "x" * limits.NAME_BYTES])
def test_plain_names_pass(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "a b", "a/b", "a\n", "ä", "x" * (limits.NAME_BYTES + 1), None, 3, b"a"]
)
def test_other_names_are_refused_by_what_they_name(name: Any) -> None:
    with pytest.raises(NameRefusedError, match=r"^broker .* is refused: letters, digits"):
        check_name(name, "broker")


@pytest.mark.parametrize(
    "topic",
    ["a", "a/b", "/", "$ops/x", "ä/ö", "a" * limits.TOPIC_BYTES, "/".join("x" * limits.TOPIC_LEVELS), "a b\n"],
)
def test_topics_without_wildcards_pass(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("", "must be a text that is not empty"),
        (None, "must be a text"),
        (7, "must be a text"),
        (b"a", "must be a text"),
        ("a/+", "holds a wildcard"),
        ("#", "holds a wildcard"),
        ("a\0b", "holds a null character"),
        (LONE_SURROGATE, "is not valid Unicode"),
        ("a" * (limits.TOPIC_BYTES + 1), "is longer than 512 bytes"),
        ("ä" * limits.TOPIC_BYTES, "is longer than 512 bytes"),
        ("/".join("x" * (limits.TOPIC_LEVELS + 1)), "has more than 32 levels"),
    ],
)
def test_other_topics_are_refused(topic: Any, why: str) -> None:
    with pytest.raises(NameRefusedError, match=f"^topic .*{why}"):
        check_topic(topic)


def test_keys_are_sorted_and_lose_their_repeats() -> None:
    assert check_keys(["b", "a", "b"]) == ("a", "b")
    assert check_keys(()) == ()
    assert check_keys(dict.fromkeys("ba")) == ("a", "b")  # type: ignore[arg-type]


def test_a_key_may_belong_to_another_topic_with_the_limits_of_both() -> None:
    longest = "t" * limits.TOPIC_BYTES + "#" + "k" * limits.KEY_BYTES
    with pytest.raises(NameRefusedError, match="is longer than"):
        check_keys([longest])  # together they may have no more than both limits without the sign between
    key = "t" * limits.TOPIC_BYTES + "#" + "k" * (limits.KEY_BYTES - 1)
    assert check_keys([key, "other#a#b"]) == ("other#a#b", key)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("abc", "keys are a list of texts, not 'abc'"),
        (None, "keys are a list of texts"),
        (5, "keys are a list of texts"),
        (iter(["a"]), "keys are a list of texts"),
        ([""], "key must be a text that is not empty"),
        ([5], "key must be a text"),
        ([None], "key must be a text"),
        ([b"a"], "key must be a text"),
        (["a\0"], "holds a null character"),
        ([LONE_SURROGATE], "is not valid Unicode"),
        (["k" * (limits.KEY_BYTES + 1)], "is longer than 256 bytes"),
        (["#k"], "topic must be a text that is not empty"),
        (["t#"], "key must be a text that is not empty"),
        (["t/+#k"], "holds a wildcard"),
        (["t#" + "k" * (limits.KEY_BYTES + 1)], "is longer than 256 bytes"),
        ([str(n) for n in range(limits.KEYS_PER_PUBLICATION + 1)], "65 keys in one publication; at most 64"),
    ],
)
def test_other_keys_are_refused(keys: Any, why: str) -> None:
    with pytest.raises(NameRefusedError, match=why):
        check_keys(keys)


def test_attributes_of_every_kind_pass() -> None:
    row: dict[str, AttributeValue] = {
        "t": "x",
        "n": 2**63 - 1,
        "m": -(2**63),
        "f": 1.5,
        "i": float("inf"),
        "b": True,
        "a b": "",
    }
    assert check_attributes(row) == row
    full = {f"a{n}": n for n in range(limits.ATTRIBUTES_PER_MESSAGE)}
    assert check_attributes(full) == full
    assert check_attributes({"n" * limits.ATTRIBUTE_NAME_BYTES: "v" * limits.ATTRIBUTE_TEXT_BYTES})


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"": 1}, "attribute name must be a text that is not empty"),
        ({5: 1}, "attribute name must be a text"),
        ({"a\0": 1}, "holds a null character"),
        ({LONE_SURROGATE: 1}, "is not valid Unicode"),
        ({"n" * (limits.ATTRIBUTE_NAME_BYTES + 1): 1}, "is longer than 128 bytes"),
        ({"a": "ä" * limits.ATTRIBUTE_TEXT_BYTES}, "attribute 'a' is longer than 1024 bytes"),
        ({"a": LONE_SURROGATE}, "attribute 'a' .* is not valid Unicode"),
        ({"a": 2**63}, "does not fit in 64 bits"),
        ({"a": -(2**63) - 1}, "does not fit in 64 bits"),
        ({"a": float("nan")}, "not NaN"),
        ({"a": None}, "must be text, a number"),
        ({"a": b"x"}, "must be text, a number"),
        ({"a": [1]}, "must be text, a number"),
        ({f"a{n}": n for n in range(limits.ATTRIBUTES_PER_MESSAGE + 1)}, "65 attributes; at most 64"),
        ([("a", 1)], "attributes map names to values"),
        (None, "attributes map names to values"),
    ],
)
def test_other_attributes_are_refused(row: Any, why: str) -> None:
    with pytest.raises(NameRefusedError, match=why):
        check_attributes(row)


def test_subclasses_come_back_as_the_plain_values_that_encoders_know() -> None:
    row = check_attributes({Label("a"): Many(3), "b": Exact(1.5), "c": Colour.RED, "d": Guarantee.CAUSAL, "e": True})
    assert row == {"a": 3, "b": 1.5, "c": "red", "d": 2, "e": True}
    assert [type(value) for value in row.values()] == [int, float, str, int, bool]
    assert {type(name) for name in row} == {str}
    assert type(check_topic(Label("t"))) is str and type(check_name(Label("n"))) is str
    assert [type(key) for key in check_keys([Label("k")])] == [str]


def test_payloads_are_bytes_of_any_sort_up_to_the_limit() -> None:
    assert check_payload(bytearray(b"ab")) == b"ab"
    assert check_payload(memoryview(b"ab")) == b"ab"
    assert type(check_payload(bytearray())) is bytes
    assert len(check_payload(bytes(limits.PAYLOAD_BYTES))) == limits.PAYLOAD_BYTES


@pytest.mark.parametrize("payload", ["text", None, 5, [1]])
def test_what_is_not_bytes_is_refused_as_payload(payload: Any) -> None:
    with pytest.raises(PayloadRefusedError, match=r"^a payload is bytes, not "):
        check_payload(payload)


def test_a_payload_is_measured_in_bytes_whatever_its_elements_are() -> None:
    wide = memoryview(array("q", [0]) * (limits.PAYLOAD_BYTES // 8 + 1))
    assert len(wide) < limits.PAYLOAD_BYTES
    for payload in (bytes(limits.PAYLOAD_BYTES + 1), wide):
        with pytest.raises(PayloadRefusedError, match=r"^a payload of 10485.. bytes; at most 1048576"):
            check_payload(payload)


HUGE: list[Any] = [
    "x" * 1_000_000,
    "+" * 1_000_000,
    "\0" * 1_000_000,
    b"x" * 1_000_000,
    [1] * 100_000,
    LONE_SURROGATE * 1000,
]


@pytest.mark.parametrize("check", [check_name, check_topic, check_keys, check_attributes, Guarantee.parse])
@pytest.mark.parametrize("value", HUGE, ids=range(len(HUGE)))
def test_a_complaint_never_quotes_all_of_something_huge(check: Any, value: Any) -> None:
    for given_value in (value, [value], {"a": value}):
        try:
            check(given_value)
        except UsageError as error:
            assert len(str(error)) < LINE_LETTERS_MAX
            assert "\n" not in str(error)


@settings(max_examples=cases(70, 200), deadline=None, derandomize=True)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(), st.lists, max_leaves=5
    )
)
def test_whatever_is_given_a_check_returns_or_refuses(value: Any) -> None:
    for check in (check_name, check_topic, check_keys, check_attributes, check_payload):
        try:
            check(value)
        except (NameRefusedError, PayloadRefusedError) as error:
            assert len(str(error)) < LINE_LETTERS_MAX
