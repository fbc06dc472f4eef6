import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.filters.predicate import check_filter, filter_covers, is_plain, topic_matches
from tests.soak import cases

SETTINGS = settings(deadline=None, derandomize=True, max_examples=cases(130, 400))

levels = st.sampled_from(["a", "b", "", "$a", "+"])
filters = st.builds(
    lambda body, tail: "/".join([*body, *tail]),
    st.lists(levels, min_size=0, max_size=3),
    st.sampled_from([[], ["#"], ["a"]]),
).filter(bool)

TOPICS = ["/".join(body) for size in range(1, 6) for body in itertools.product(["a", "b", "", "$a", "z"], repeat=size)]
TOPICS.remove("")


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("sport/tennis", "sport/tennis", True),
        ("sport/tennis", "sport/Tennis", False),
        ("sport/#", "sport", True),
        ("sport/#", "sport/tennis/final", True),
        ("sport/#", "sports", False),
        ("#", "a/b", True),
        ("#", "/", True),
        ("+", "a", True),
        ("+", "/a", False),
        ("+/+", "/a", True),
        ("/+", "/a", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/#", "a", True),
        ("sport/+/final", "sport/tennis/final", True),
        ("sport/+/final", "sport/tennis/x/final", False),
        ("#", "$sys/load", False),
        ("+/load", "$sys/load", False),
        ("$sys/#", "$sys/load", True),
        ("$sys/+", "$sys/load", True),
        ("a/+", "a/$b", True),
    ],
)
def test_matching_follows_mqtt(topic_filter: str, topic: str, expected: bool) -> None:
    assert topic_matches(check_filter(topic_filter), topic) is expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not empty"),
        ("a/#/b", "last level"),
        ("#/#", "last level"),
        ("a#", "alone in its level"),
        ("a/b+", "alone in its level"),
        ("++", "alone in its level"),
        ("a\0", "null character"),
        ("a\ud800", "not valid Unicode"),
        ("é" * (limits.TOPIC_BYTES // 2) + "x", "longer than"),
        ("/" * limits.TOPIC_LEVELS, "levels"),
    ],
)
def test_a_bad_filter_is_refused_in_one_line_that_says_why(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refusal:
        check_filter(text)
    assert len(str(refusal.value).splitlines()) == 1
    assert len(str(refusal.value)) < 300


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(UsageError, match="not empty, not 5"):
        check_filter(5)  # type: ignore[arg-type]


def test_filters_at_the_limits_pass() -> None:
    for text in ("x" * limits.TOPIC_BYTES, "/" * (limits.TOPIC_LEVELS - 1), "+", "#", "+/#", "/+/"):
        assert check_filter(text) == text


def test_a_plain_filter_has_no_wildcard() -> None:
    assert [is_plain(text) for text in ("a/b", "a/+", "#", "")] == [True, False, False, True]


@SETTINGS
@given(filters, filters)
def test_covering_agrees_with_trying_every_topic(wide: str, narrow: str) -> None:
    by_trial = all(topic_matches(wide, topic) for topic in TOPICS if topic_matches(narrow, topic))
    assert filter_covers(check_filter(wide), check_filter(narrow)) is by_trial


def test_everything_and_everything_with_a_first_level_are_the_same() -> None:
    assert filter_covers("#", "+/#")
    assert filter_covers("+/#", "#")
    assert not filter_covers("a/+/#", "a/#")
