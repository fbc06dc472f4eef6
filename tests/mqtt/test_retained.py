"""Retained store: order of publishers, removal, expiry, limits, wildcards against a linear search, snapshots."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.filters.predicate import topic_matches
from resprout.mqtt.retained import LEAD_US, MESSAGE_BYTES, STAMP, TOMBSTONE_US, RetainedStore, size_of
from resprout.mqtt.snapshots import dump, load

NOW = 1_800_000_000_000_000


def retained(
    topic: str, payload: bytes = b"x", stamp: int | None = NOW, publisher: str = "p", seq: int = 1, **more: Any
) -> Message:
    attributes: dict[str, Any] = {"mqtt.retain": True, **{f"mqtt.{name}": value for name, value in more.items()}}
    if stamp is not None:
        attributes[STAMP] = stamp
    return Message(publisher, 1, seq, topic, (), Guarantee.CAUSAL, attributes, payload, 0)


def content(store: RetainedStore, now: int = NOW) -> dict[str, bytes]:
    found = {message.topic: message.payload for message in store.match("#", now)}
    return found | {message.topic: message.payload for message in store.match("$x/#", now)}


def test_the_last_message_of_a_topic_is_kept() -> None:
    store = RetainedStore()
    assert store.put(retained("a/b", b"1"), NOW)
    assert store.put(retained("a/b", b"2", NOW + 1), NOW)
    assert store.put(retained("a", b"3"), NOW)
    assert content(store) == {"a/b": b"2", "a": b"3"}
    assert len(store) == 2


def test_a_message_that_is_not_to_be_retained_changes_nothing() -> None:
    store = RetainedStore()
    message = Message("p", 1, 1, "a", (), Guarantee.CAUSAL, {STAMP: NOW}, b"x", 0)
    assert not store.put(message, NOW)
    assert len(store) == 0


def test_an_empty_payload_removes() -> None:
    store = RetainedStore()
    store.put(retained("a", b"1"), NOW)
    assert store.put(retained("a", b"", NOW + 1), NOW)
    assert content(store) == {}
    assert store.bytes == 0
    assert not store.put(retained("a", b"late", NOW), NOW)
    assert store.put(retained("a", b"new", NOW + 2), NOW)
    assert content(store) == {"a": b"new"}


def test_writers_converge_in_whatever_order_their_messages_come() -> None:
    """Messages with equal stamps are ordered by publisher and number."""
    writes = [
        retained("a", b"1", NOW, "p", 1),
        retained("a", b"2", NOW, "q", 1),
        retained("a", b"", NOW + 5, "p", 2),
        retained("a", b"3", NOW + 5, "q", 2),
        retained("b", b"4", NOW + 1, "p", 3),
        retained("b", b"", NOW + 2, "q", 3),
    ]
    found = set()
    for order in itertools.permutations(writes):
        store = RetainedStore()
        for message in order:
            store.put(message, NOW)
        found.add(tuple(sorted(content(store).items())))
    assert found == {(("a", b"3"),)}


def test_next_stamp_is_after_what_it_replaces_and_after_a_removal() -> None:
    store = RetainedStore()
    assert store.next_stamp("a", NOW) == NOW
    store.put(retained("a", b"1", NOW + 50), NOW)
    assert store.next_stamp("a", NOW) == NOW + 51
    assert store.next_stamp("a", NOW + 100) == NOW + 100
    store.put(retained("a", b"", NOW + 60), NOW)
    assert store.next_stamp("a", NOW) == NOW + 61


def test_without_a_stamp_the_last_one_that_comes_is_kept() -> None:
    store = RetainedStore()
    store.put(retained("a", b"1", None), NOW)
    store.put(retained("a", b"2", None), NOW - 5)
    assert content(store) == {"a": b"2"}


def test_a_stamp_far_ahead_is_refused() -> None:
    store = RetainedStore()
    assert not store.put(retained("a", b"1", NOW + LEAD_US + 1), NOW)
    assert store.refused == 1
    assert store.put(retained("a", b"1", NOW + LEAD_US), NOW)


def test_messages_expire() -> None:
    store = RetainedStore()
    store.put(retained("a", b"1", NOW, expires=NOW + 10), NOW)
    store.put(retained("b", b"2", NOW, expires=NOW + 20), NOW)
    store.put(retained("c", b"3", NOW), NOW)
    assert content(store, NOW + 9) == {"a": b"1", "b": b"2", "c": b"3"}
    assert content(store, NOW + 10) == {"b": b"2", "c": b"3"}
    assert store.match("a", NOW + 10) == []
    assert store.expire(NOW + 15) == 1
    assert len(store) == 2
    store.put(retained("b", b"4", NOW + 1), NOW + 15)  # no expiry
    assert store.expire(NOW + 1_000) == 0
    assert content(store, NOW + 1_000) == {"b": b"4", "c": b"3"}
    assert not store.put(retained("a", b"late", NOW - 1), NOW + 20), "an expiry leaves a tombstone"
    assert store.put(retained("d", b"5", NOW + 2, expires=NOW + 3), NOW + 5), "it counts as a removal"
    assert "d" not in content(store)


def test_expiries_that_are_replaced_take_no_room() -> None:
    store = RetainedStore()
    for step in range(10_000):
        store.put(retained("a", b"1", NOW + step, expires=NOW + 10**9 + step), NOW)
    assert store.expiries <= 2 + 64 + 1


def test_tombstones_are_forgotten() -> None:
    store = RetainedStore(tombstones_max=2)
    for place, topic in enumerate("abc"):
        store.put(retained(topic, b"", NOW + place), NOW + place)
    assert {topic for _, topic in store.removals()} == {"b", "c"}
    store.expire(NOW + 1 + TOMBSTONE_US)
    assert {topic for _, topic in store.removals()} == {"c"}


def test_bounds() -> None:
    size = size_of(retained("a", b"1"))
    assert size > MESSAGE_BYTES
    store = RetainedStore(bytes_max=2 * size)
    assert store.put(retained("a", b"1"), NOW)
    assert store.put(retained("b", b"1"), NOW)
    assert not store.fits("c", size)
    assert not store.put(retained("c", b"1"), NOW)
    assert store.refused == 1
    assert store.put(retained("a", b"2", NOW + 1), NOW), "the old message makes room"
    assert not store.put(retained("a", b"too large", NOW + 2), NOW)
    assert content(store) == {"b": b"1"}, "what was replaced is not the last message any more"
    assert store.bytes == size
    few = RetainedStore(topics_max=1)
    assert few.put(retained("a"), NOW)
    assert not few.put(retained("b"), NOW)
    assert not few.fits("b", 1)
    with pytest.raises(UsageError):
        RetainedStore(bytes_max=-1)


LEVELS = ("a", "b", "", "$x")
some_levels = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool)
some_filters = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]),
    st.lists(st.sampled_from((*LEVELS, "+", "+")), min_size=1, max_size=3),
    st.sampled_from(([], ["#"])),
).filter(bool) | st.just("#")


@settings(deadline=None)
@given(st.lists(st.tuples(some_levels, st.booleans()), max_size=25), st.lists(some_filters, min_size=1, max_size=5))
def test_wildcards_find_what_a_plain_search_finds(writes: list[tuple[str, bool]], filters: list[str]) -> None:
    store = RetainedStore()
    known: dict[str, bytes] = {}
    for step, (topic, is_removal) in enumerate(writes):
        payload = b"" if is_removal else str(step).encode()
        store.put(retained(topic, payload, NOW + step), NOW)
        known.pop(topic, None)
        if payload:
            known[topic] = payload
    for topic_filter in filters:
        found = {message.topic: message.payload for message in store.match(topic_filter, NOW)}
        assert found == {topic: value for topic, value in known.items() if topic_matches(topic_filter, topic)}
    assert len(store) == len(known)


def test_snapshots_merge() -> None:
    first, second = RetainedStore(), RetainedStore()
    for step in range(200):
        first.put(retained(f"t/{step}", b"x" * 50, NOW + step), NOW)
    first.put(retained("t/7", b"", NOW + 500), NOW)
    second.put(retained("t/8", b"newer", NOW + 600), NOW)
    second.put(retained("t/7", b"older", NOW + 400), NOW)
    parts = list(dump(first, part_bytes=1_000))
    assert len(parts) > 5
    random.Random(1).shuffle(parts)
    changed = sum(load(second, part, NOW) for part in parts)
    assert changed == 199
    assert sum(load(second, part, NOW) for part in parts) == 0
    expected = content(first) | {"t/8": b"newer"}
    assert content(second) == expected
    assert not second.put(retained("t/7", b"late", NOW + 450), NOW)
    assert next(iter(dump(RetainedStore())), None) is None


def test_damaged_snapshots_change_nothing() -> None:
    store, other = RetainedStore(), RetainedStore()
    for step in range(5):
        store.put(retained(f"t/{step}", b"x", NOW), NOW)
    (part,) = dump(store)
    dice = random.Random(2)
    refused = 0
    for _ in range(2_000):
        damaged = bytearray(part)
        for _ in range(dice.randrange(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        target = RetainedStore()
        try:
            load(target, bytes(damaged[: dice.randrange(1, len(damaged) + 1)]), NOW)
        except WireError:
            refused += 1
            assert len(target) == 0
    assert refused > 1_000
    with pytest.raises(WireError):
        load(other, b"\x91\xc0", NOW)


def test_a_snapshot_respects_bounds_and_clocks() -> None:
    store = RetainedStore()
    store.put(retained("a", b"x"), NOW)
    store.put(retained("b", b"x", expires=NOW + 5), NOW)
    (part,) = dump(store)
    small = RetainedStore(topics_max=0)
    assert load(small, part, NOW) == 0
    assert small.refused == 2
    late = RetainedStore()
    load(late, part, NOW + 5)
    assert content(late, NOW + 5) == {"a": b"x"}
    early = RetainedStore()
    assert load(early, part, NOW - LEAD_US - 1) == 0


def test_an_owner_leaves_as_much_to_others_as_it_has() -> None:
    store = RetainedStore(topics_max=20)

    def put(topic: str, owner: str) -> bool:
        message = retained(topic, owner=owner)
        fits = store.leaves_room(topic, size_of(message), owner)
        if fits:
            store.put(message, NOW)
        return fits

    assert sum([put(f"a/{number}", "a") for number in range(20)]) == 10
    assert sum([put(f"b/{number}", "b") for number in range(20)]) == 5
    assert put("c", "c")
    assert store.put(retained("a/3", b"", NOW + 1), NOW)
    assert store.put(retained("a/4", b"2", NOW + 1, owner="c"), NOW), "another owner replaces it"
    assert not put("a/20", "a"), "others have more now, so its part is smaller"
    for number in range(5, 9):
        store.put(retained(f"a/{number}", b"", NOW + 1), NOW)
    assert put("a/20", "a")


def test_an_owner_leaves_bytes_to_others() -> None:
    store = RetainedStore(bytes_max=100_000)
    message = retained("a", bytes(60_000), owner="a")
    assert not store.leaves_room("a", size_of(message), "a")
    message = retained("a", bytes(40_000), owner="a")
    assert store.leaves_room("a", size_of(message), "a")
    store.put(message, NOW)
    assert store.leaves_room("a", size_of(message), "a"), "it replaces its own message"
    assert not store.leaves_room("b", size_of(message), "a")
    assert not store.leaves_room("b", size_of(message), "b")
    assert store.leaves_room("b", 20_000, "b")
