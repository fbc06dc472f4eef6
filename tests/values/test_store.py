"""The store of last values against a plain dictionary, its snapshots, and its bounds."""

import random
from typing import Any

import pytest

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.core.timing import EXPIRES
from resprout.filters.predicate import topic_matches
from resprout.values import store as store_module
from resprout.values.rows import (
    DELETES,
    EXPECTED,
    RETAIN_KEY,
    KnownOutcome,
    KnownValue,
    check_row,
    is_retained,
    largest_cost,
)
from resprout.values.store import LastValues

TOPICS = ("a", "a/b", "$kv/x/k", "$kv/x/k/l", "$kv/y/k")
FILTERS = ("a", "a/#", "#", "$kv/#", "$kv/+/k", "$kv/x/k/#", "none")


def retained(
    topic: str, *rows: tuple[bytes, dict[str, Any]], writer: str = "w", first: int = 1, life: int = 1
) -> Bundle:
    payloads, attributes = [payload for payload, _ in rows], [told for _, told in rows]
    return Bundle(
        writer, life, first, len(rows), 7, topic, (RETAIN_KEY,), Guarantee.TOTAL, pack_attributes(attributes),
        pack_payloads(payloads),
    )  # fmt: skip


def write(store: LastValues, place: int, topic: str, payload: bytes = b"v", seq: int = 1, **told: Any) -> list[str]:
    attributes = {name.replace("_", "."): value for name, value in told.items()}
    changed: list[str] = []
    before = state_of(store)
    store.apply(retained(topic, (payload, attributes), first=seq), place, lambda one: changed.append(one.topic))
    return changed if state_of(store) != before else []


def state_of(store: LastValues) -> dict[str, tuple[int, bytes]]:
    return {value.topic: (value.revision, value.payload) for value in store.values()}


def test_the_store_agrees_with_a_dictionary_that_applies_the_same_writes() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        store, model = LastValues(), dict[str, tuple[int, bytes]]()
        for place in range(1, 80):
            topic, payload = rng.choice(TOPICS), rng.choice((b"", b"1", b"22"))
            is_key = topic.startswith("$kv/")
            told: dict[str, Any] = {}
            if is_key and rng.random() < 0.3:
                told[DELETES] = True
            expected = rng.choice((None, 0, model.get(topic, (0, b""))[0], rng.randrange(1, 80)))
            if expected is not None:
                told[EXPECTED] = expected
            store.apply(retained(topic, (payload, told), first=place), place, lambda *_: None)
            current = model.get(topic, (0, b""))[0]
            fits = not is_key or expected is None or expected == current
            if fits and (told.get(DELETES) if is_key else not payload):
                model.pop(topic, None)
            elif fits:
                model[topic] = (place, payload)
            outcome = store.outcome("w", 1, place)
            if is_key:
                assert outcome is not None
                assert (outcome.is_applied, outcome.current) == (fits, model.get(topic, (0, b""))[0])
            else:
                assert outcome is None
        assert state_of(store) == model
        for one in FILTERS:
            names = [value.topic for value in store.match(one, 0)]
            assert names == sorted(topic for topic in model if topic_matches(one, topic))
        copy = LastValues.of(list(store.rows()))
        assert list(copy.rows()) == list(store.rows()) and copy.bytes == store.bytes and copy.place == store.place


def test_messages_of_one_bundle_are_applied_one_after_the_other() -> None:
    store = LastValues()
    rows = [(b"1", {EXPECTED: 0}), (b"2", {EXPECTED: 0}), (b"3", {EXPECTED: 10}), (b"", {DELETES: True, EXPECTED: 12})]
    store.apply(retained("$kv/x/k", *rows), 10, lambda *_: None)
    told = [store.outcome("w", 1, seq) for seq in range(1, 5)]
    assert [(one.is_applied, one.current) for one in told if one] == [(True, 10), (False, 10), (True, 12), (True, 0)]
    assert store.place == 13


def test_a_bundle_that_cannot_be_read_changes_nothing() -> None:
    store = LastValues()
    store.apply(Bundle("w", 1, 1, 2, 7, "a", (RETAIN_KEY,), Guarantee.TOTAL, b"", b"\x91\xc4\x00"), 4, lambda *_: None)
    assert len(store) == 0


def test_only_totals_that_name_the_key_are_retained() -> None:
    bundle = retained("a", (b"1", {}))
    assert is_retained(bundle)
    assert not is_retained(Bundle("w", 1, 1, 1, 7, "a", (), Guarantee.TOTAL, b"", bundle.payloads))
    assert not is_retained(Bundle("w", 1, 1, 1, 7, "a", (RETAIN_KEY,), Guarantee.CAUSAL, b"", bundle.payloads))


def test_an_expired_value_is_not_read_and_a_key_keeps_its_revision() -> None:
    store = LastValues()
    for place, topic in enumerate(("a", "$kv/x/k"), 1):
        store.apply(retained(topic, (b"1", {EXPIRES: 100}), first=place), place, lambda *_: None)
    assert [value.topic for value in store.match("#", 99)] == ["a"]
    assert store.match("a", 100) == [] and store.match("$kv/#", 100) == []
    assert [value.topic for value in store.match("$kv/#", 100, all_keys=True)] == ["$kv/x/k"]
    assert store.expire(99) == [] and store.expire(100) == ["a"]
    assert store.revision("a") == 0 and store.revision("$kv/x/k") == 2


def test_a_replaced_value_does_not_expire_with_the_time_of_the_old_one() -> None:
    store = LastValues()
    store.apply(retained("a", (b"1", {EXPIRES: 100})), 1, lambda *_: None)
    write(store, 2, "a", seq=2)
    assert store.expire(1_000) == [] and store.revision("a") == 2


def test_bytes_return_to_zero_when_everything_is_removed() -> None:
    store = LastValues()
    for place in range(1, 200):
        write(store, place, f"t/{place % 7}", b"x" * (place % 50), seq=place)
    assert store.bytes > 0
    for number in range(7):
        write(store, 300 + number, f"t/{number}", b"", seq=300 + number)
    assert store.bytes == 0 and len(store) == 0


def test_only_changes_are_told() -> None:
    store = LastValues()
    assert write(store, 1, "a", b"") == []
    assert write(store, 2, "a", b"1") == ["a"] and write(store, 3, "a", b"") == ["a"]
    assert write(store, 4, "$kv/x/k", b"1", kv_expected=3) == []


def test_outcomes_of_many_writes_and_writers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "OUTCOMES_KEPT", 3)
    monkeypatch.setattr(store_module, "WRITERS_KEPT", 2)
    store = LastValues()
    for place, writer in enumerate(("w1", "w1", "w1", "w1", "w2", "w1", "w3"), 1):
        store.apply(retained("$kv/x/k", (b"1", {}), writer=writer, first=place), place, lambda *_: None)
    assert [seq for seq in range(8) if store.outcome("w1", 1, seq)] == [3, 4, 6]
    assert store.outcome("w2", 1, 5) is None and store.outcome("w3", 1, 7) is not None


def test_a_later_life_of_a_writer_has_outcomes_of_its_own() -> None:
    store = LastValues()
    store.apply(retained("$kv/x/k", (b"1", {}), life=1), 1, lambda *_: None)
    store.apply(retained("$kv/x/k", (b"1", {EXPECTED: 9}), life=2), 2, lambda *_: None)
    assert store.outcome("w", 1, 1) is None
    told = store.outcome("w", 2, 1)
    assert told is not None and not told.is_applied


def test_a_store_without_anything_has_no_rows() -> None:
    assert list(LastValues().rows()) == []


def fill(store: LastValues, writer: str, size: int, topics_max: int, bytes_max: int) -> int:
    """Let a writer retain values of these bytes on new topics until it is refused; return how many it has."""
    for number in range(1_000):
        bundle = retained(f"{writer}/{number:03}", (bytes(size), {}), writer=writer, first=number + 1)
        if store.excess(writer, bundle.topic, largest_cost(bundle), topics_max, bytes_max):
            return number
        store.apply(bundle, store.place + 1, lambda *_: None)
    raise AssertionError("it is never refused")


def test_a_writer_may_use_half_of_what_others_leave() -> None:
    store = LastValues()
    assert [fill(store, writer, 10, 100, 1 << 30) for writer in ("a", "b", "c", "d")] == [50, 25, 13, 6]
    cost = largest_cost(retained("a/000", (bytes(1_000), {})))
    store = LastValues()
    assert [fill(store, writer, 1_000, 10_000, 90 * cost) for writer in ("a", "b", "c")] == [45, 22, 11]
    assert "retained_bytes" in store.excess("a", "a/new", cost, 10_000, 90 * cost)
    assert [fill(LastValues(), "a", 10, topics, 1 << 30) for topics in (0, 1, 2, 3)] == [0, 1, 1, 2]


def test_a_value_that_is_not_larger_than_the_one_that_it_replaces_always_fits() -> None:
    """Else the writers that came first could not write any more once others have come."""
    store = LastValues()
    for writer in ("a", "b"):
        fill(store, writer, 100, 100, 1 << 30)
    for writer in ("a", "c"):
        same, larger = (retained("a/000", (bytes(size), {}), writer=writer) for size in (100, 101))
        assert store.excess(writer, "a/000", largest_cost(same), 10, 100) == ""
        assert "retained_bytes" in store.excess(writer, "a/000", largest_cost(larger), 10, 100)


@pytest.mark.parametrize(
    "row",
    [
        KnownValue("a/#", 1, "w", 1, 1, 1, (), b"", b""),
        KnownValue("a", 1, "w/x", 1, 1, 1, (), b"", b""),
        KnownValue("a", -1, "w", 1, 1, 1, (), b"", b""),
        KnownValue("a", 1, "w", 1, 1, 1, ("b", "a"), b"", b""),
        KnownValue("a", 1, "w", 1, 1, 1, (), pack_attributes([{"": 1}]), b""),
        KnownValue("a", 1, "w", 1, 1, 1, (), b"\xc1", b""),
        KnownValue("a", 1, "w", 1, 1, 1, (), b"", b"12345"),
        KnownOutcome("w/x", 1, 1, 1, True, 1),
    ],
)
def test_rows_that_no_honest_broker_sends_are_refused(row: Any) -> None:
    with pytest.raises(UsageError):
        check_row(row, payload_max=4)


def test_writers_of_one_owner_share_its_room() -> None:
    """An identity may have many clients: each of them had half of what the others left."""
    store = LastValues(lambda writer: writer.partition(".")[0])
    for place, writer in enumerate(("a.1", "a.2", "a.3"), 1):
        store.apply(retained(f"t/{place}", (b"v", {}), writer=writer, first=place), place, lambda *_: None)
    assert "retained_topics" in store.excess("a.4", "t/4", 1, 6, 1 << 30)
    assert not store.excess("b.1", "t/4", 1, 6, 1 << 30)
    size = store.bytes
    store.share_by(lambda writer: writer)
    assert not store.excess("a.4", "t/4", 1, 6, 1 << 30) and store.bytes == size


def test_a_page_looks_at_what_it_holds_and_no_more() -> None:
    """Each page sorted all topics that matched: 1,024 questions of one client took minutes."""
    store = LastValues()
    for place in range(1, 1_001):
        store.apply(retained(f"a/{place:04}/x", (b"v", {}), first=place), place, lambda *_: None)
    found = store.find("a/#", 0, "a/0500/x")
    assert [next(found).topic for _ in range(3)] == ["a/0501/x", "a/0502/x", "a/0503/x"]
    assert store.looked_at <= 4
    assert [value.topic for value in store.find("a/0007/x", 0)] == ["a/0007/x"] and store.looked_at == 1
    assert not list(store.find("b/#", 0)) and store.looked_at <= 1
    assert not list(store.find("a/+/y", 0)) and store.looked_at == 1_000
