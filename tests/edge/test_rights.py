"""Whether a client may publish on a topic or subscribe to a filter: compared with what topics say one by one."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.edge.rights import NOTHING, Rights, includes, is_listed, may_hear, may_publish, may_subscribe
from resprout.filters.predicate import topic_matches
from tests.soak import cases

SETTINGS = settings(deadline=None, derandomize=True, max_examples=cases(100, 300))

levels = st.sampled_from(["a", "b", "", "$a", "+"])
filters = st.builds(
    lambda body, tail: "/".join([*body, *tail]),
    st.lists(levels, min_size=0, max_size=2),
    st.sampled_from([[], ["#"], ["a"]]),
).filter(bool)
lists = st.lists(filters, max_size=3).map(tuple)
names = st.lists(st.sampled_from(["a", "ab", "a*", "ab*", "b", "*"]), max_size=3, unique=True).map(tuple)
rights = st.builds(Rights, lists, lists, st.booleans(), st.booleans(), names, names)
NAMES = ["a", "ab", "abc", "b", "c"]

TOPICS = ["/".join(body) for size in range(1, 5) for body in itertools.product(["a", "b", "", "$a", "z"], repeat=size)]
TOPICS.remove("")


def matched(filters: tuple[str, ...], topic: str) -> bool:
    return any(topic_matches(one, topic) for one in filters)


@SETTINGS
@given(rights, st.sampled_from(TOPICS))
def test_a_client_publishes_exactly_where_a_filter_of_its_rights_matches(has: Rights, topic: str) -> None:
    assert may_publish(has, topic) is matched(has.publish, topic)
    assert not may_publish(NOTHING, topic)


@SETTINGS
@given(rights, filters)
def test_a_subscription_that_is_allowed_brings_nothing_that_is_not(has: Rights, wanted: str) -> None:
    assert not may_subscribe(NOTHING, wanted)
    if may_subscribe(has, wanted):
        assert all(matched(has.subscribe, topic) for topic in TOPICS if topic_matches(wanted, topic))


@SETTINGS
@given(rights, filters)
def test_a_subscription_that_one_filter_covers_is_allowed(has: Rights, wanted: str) -> None:
    topics = [topic for topic in TOPICS if topic_matches(wanted, topic)]
    if any(topics and all(topic_matches(one, topic) for topic in topics) for one in has.subscribe):
        assert may_subscribe(has, wanted)


@SETTINGS
@given(rights, rights, filters)
def test_more_rights_never_allow_less(has: Rights, more: Rights, wanted: str) -> None:
    both = Rights(
        has.publish + more.publish, has.subscribe + more.subscribe, has.operate or more.operate,
        has.observe or more.observe, has.consume + more.consume, has.manage + more.manage,
    )  # fmt: skip
    assert may_subscribe(both, wanted) or not may_subscribe(has, wanted)
    assert all(may_publish(both, topic) or not may_publish(has, topic) for topic in TOPICS[:60])
    assert includes(both, has) and includes(both, more)


@SETTINGS
@given(rights, rights, filters)
def test_rights_that_include_others_allow_all_that_those_do(wide: Rights, narrow: Rights, wanted: str) -> None:
    if includes(wide, narrow):
        assert all(may_publish(wide, topic) for topic in TOPICS if may_publish(narrow, topic))
        assert may_subscribe(wide, wanted) or not may_subscribe(narrow, wanted)
        assert wide.operate or not narrow.operate
        for wider, narrower in ((wide.consume, narrow.consume), (wide.manage, narrow.manage)):
            assert all(is_listed(wider, name) for name in NAMES if is_listed(narrower, name))


@SETTINGS
@given(rights, filters)
def test_replies_are_heard_by_their_client_alone_whatever_the_rights(has: Rights, wanted: str) -> None:
    for one in (has, Rights(subscribe=("$reply/#",)), Rights(unruled=True)):
        assert may_hear(one, "c", "$reply/c")
        assert not any(may_hear(one, "c", f"$reply/{other}") for other in ("#", "+", "d", "c/d", "+/c"))
    assert may_hear(has, "c", wanted) is may_subscribe(has, wanted)
