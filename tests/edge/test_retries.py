"""What comes back to a durable subscription without an acknowledgement: one queue, without a network around it."""

from typing import Any

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import NUMBER_MAX, Mark
from resprout.edge.broker import waiting_portions
from resprout.edge.broker.portion import PIECES_LISTED, Consumer, Portion, disjoint
from resprout.edge.broker.retries import STALE_MAX, DeadMessage, Retries, TryCounts
from resprout.edge.broker.retry_queue import RetryQueue
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import RetryTerms, Span, Tries
from resprout_lab.blocks.retention import KeptItem

S = 1_000_000


def span(first: int, last: int = 0) -> Span:
    return Span("p", "ordered", 1, first, last or first)


class Scene:
    def __init__(self, is_shared: bool = True, tries: tuple[Tries, ...] = (), **policy: Any) -> None:
        self.session = ClientSession("=jobs", 0, 0)
        self.took: list[KeptItem] = []
        terms = RetryTerms("dead", **policy)
        took: Any = self.took.append
        self.queue = RetryQueue(self.session, is_shared, took, (), retries=Retries(terms, tries))
        self._last = 0

    @property
    def dead(self) -> list[DeadMessage]:
        return list(self.queue.retries.dead.values())

    def publish(self, count: int = 1, *keys: str) -> None:
        payloads = pack_payloads([b"x"] * count)
        bundle = Bundle("p", 1, self._last + 1, count, 1, "jobs", keys, Guarantee.CAUSAL, b"", payloads)
        self._last += count
        self.session.backlog.append(KeptItem(bundle, self._last, None, False))
        self.queue.fill()

    def join(self, *names: str, window: int = 100, has: tuple[Span, ...] = ()) -> None:
        for name in names:
            self.queue.join(Consumer(ClientSession(name, 1, 1 << 20), window, has), ())

    def at(self, now_us: int) -> list[tuple[str, int, int]]:
        """Return who is handed which number, for which time."""
        self.queue.retries.now_us = now_us
        self.queue.release_due()
        self.queue.take_back_overdue()
        handed: list[tuple[str, int, int]] = []

        def give(consumer: Consumer, portion: Portion) -> None:
            name, delivery = consumer.session.name, portion.tries + 1
            handed.extend([(name, portion.first + offset, delivery) for offset in portion.offsets])

        self.queue.hand_out(give)
        return handed


def test_each_consumer_that_goes_counts_as_a_try_of_what_it_had() -> None:
    scene = Scene()
    scene.publish(2)
    for delivery, name in enumerate("abc", 1):
        scene.join(name)
        assert scene.at(0) == [(name, 1, delivery), (name, 2, delivery)]
        scene.queue.leave(name)
    told = scene.queue.retries.take_untold()
    assert [(each.first, each.last, each.times) for each in told] == [(1, 2, 1), (1, 2, 2), (1, 2, 3)]
    assert scene.queue.retries.take_untold() == ()


def test_the_next_home_goes_on_counting_and_hands_out_nothing_that_was_given_up() -> None:
    scene = Scene(tries=(Tries("p", "ordered", 1, 1, 1, 2), Tries("p", "ordered", 1, 3, 3, 3)), max_deliver=3)
    scene.queue.again_below = 1_000
    scene.publish(4)
    scene.join("a", "b")
    assert {(number, delivery) for _, number, delivery in scene.at(0)} == {(1, 3), (2, 1), (4, 1)}
    (dead,) = scene.dead
    assert dead.portion.spans() == [span(3)]


def test_a_message_that_was_tried_often_enough_is_dead_and_done_when_its_letter_is_safe() -> None:
    scene = Scene(max_deliver=2)
    scene.publish(1)
    for name in "ab":
        scene.join(name)
        assert len(scene.at(0)) == 1
        scene.queue.leave(name)
    scene.join("c")
    assert scene.at(0) == [] and not scene.took
    (dead,) = scene.dead
    assert (dead.consumer, dead.portion.tries) == ("b", 2)
    scene.queue.dead_letter_is_safe(dead)
    assert len(scene.took) == 1 and not scene.dead
    assert scene.queue.progress() == ((Mark("p", "ordered", 1, 1),), ())


def test_the_last_try_of_a_message_is_made_alone() -> None:
    """A consumer that crashes takes along everything that it has: only one message can be to blame in the end."""
    scene = Scene(max_deliver=2)
    scene.publish(5)
    scene.join("a")
    assert len(scene.at(0)) == 5
    scene.queue.leave("a")
    scene.join("b")
    for number in range(1, 6):
        assert scene.at(0) == [("b", number, 2)]
        scene.publish(1)
        assert scene.at(0) == [], "it is handed nothing else meanwhile"
        scene.queue.acknowledge("b", span(number))
    assert not scene.dead
    assert [number for _, number, _ in scene.at(0)] == [6, 7, 8, 9, 10]


def test_a_message_waits_for_its_last_try_until_one_consumer_has_nothing_else() -> None:
    scene = Scene(max_deliver=2)
    scene.publish(2)
    scene.join("a")
    scene.at(0)
    scene.queue.nack("a", span(1), 0)
    assert scene.at(0) == []
    scene.queue.acknowledge("a", span(2))
    assert scene.at(0) == [("a", 1, 2)]


def test_a_rejected_message_comes_after_its_delay_and_not_before() -> None:
    scene = Scene()
    scene.publish(3)
    scene.join("a")
    scene.at(0)
    scene.queue.nack("a", span(2), 5 * S)
    assert scene.queue.retries.next_us() == 5 * S
    assert scene.at(5 * S - 1) == []
    assert scene.at(5 * S) == [("a", 2, 2)]


def test_later_messages_of_a_key_wait_for_a_rejected_one() -> None:
    scene = Scene()
    for _ in range(3):
        scene.publish(1, "k")
    scene.join("a", "b")
    assert [number for _, number, _ in scene.at(0)] == [1], "one of a key at a time"
    scene.queue.nack("a", span(1), 5 * S)
    scene.queue.nack("b", span(1), 5 * S)
    assert scene.at(1) == []
    ((name, number, delivery),) = scene.at(5 * S)
    assert (number, delivery) == (1, 2)
    scene.queue.acknowledge(name, span(1))
    assert [number for _, number, _ in scene.at(5 * S)] == [2]


def test_later_messages_of_a_key_wait_until_the_dead_letter_is_safe() -> None:
    scene = Scene(max_deliver=1)
    scene.publish(1, "k")
    scene.publish(1, "k")
    scene.join("a")
    assert [number for _, number, _ in scene.at(0)] == [1]
    scene.queue.terminate("a", span(1), "poison")
    assert scene.at(0) == []
    (dead,) = scene.dead
    assert dead.reason == "poison"
    scene.queue.dead_letter_is_safe(dead)
    assert [number for _, number, _ in scene.at(0)] == [2]


@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "group"])
def test_what_takes_too_long_is_handed_out_again_and_a_late_ack_still_counts(is_shared: bool) -> None:
    scene = Scene(is_shared, ack_wait_us=10 * S)
    scene.publish(2)
    scene.join("a")
    assert len(scene.at(0)) == 2
    assert scene.at(10 * S - 1) == []
    assert scene.at(10 * S) == [("a", 1, 2), ("a", 2, 2)]
    scene.queue.acknowledge("a", span(1, 2))
    assert len(scene.took) == 1
    assert scene.queue.retries.next_us() == 0


def test_a_consumer_that_works_on_a_message_has_more_time_for_that_one_only() -> None:
    scene = Scene(ack_wait_us=10 * S)
    scene.publish(3)
    scene.join("a")
    scene.at(0)
    scene.queue.retries.now_us = 9 * S
    scene.queue.extend("a", span(2))
    assert {number for _, number, _ in scene.at(10 * S)} == {1, 3}
    assert {number for _, number, _ in scene.at(19 * S)} == {2}


def test_nobody_settles_what_it_does_not_have() -> None:
    scene = Scene(max_deliver=2, ack_wait_us=10 * S)
    scene.publish(2)
    scene.join("a", window=1)
    scene.join("b", window=1)
    holders = {number: name for name, number, _ in scene.at(0)}
    other = "b" if holders[1] == "a" else "a"
    scene.queue.nack(other, span(1), 0)
    scene.queue.terminate(other, span(1), "")
    scene.queue.extend(other, span(1))
    scene.queue.nack("nobody", span(1, 2), 0)
    assert not scene.dead and scene.at(5 * S) == []


def test_a_late_ack_counts_while_a_message_is_aside_and_not_once_its_letter_is_published() -> None:
    scene = Scene(max_deliver=2)
    scene.publish(2)
    scene.join("a")
    scene.at(0)
    scene.queue.nack("a", span(1), 5 * S)
    scene.queue.acknowledge("a", span(1))
    assert scene.at(5 * S) == []
    scene.queue.terminate("a", span(2), "")
    scene.dead[0].letter = object()
    scene.queue.acknowledge("a", span(2))
    assert len(scene.dead) == 1 and not scene.took


def test_a_purge_drops_what_waits_and_what_is_delayed_and_leaves_what_consumers_have() -> None:
    scene = Scene()
    scene.publish(4)
    scene.join("a", window=2)
    scene.at(0)
    scene.queue.nack("a", span(1), 5 * S)
    assert scene.queue.purge() == 3
    assert scene.queue.drops.messages == 3
    assert scene.at(5 * S) == []
    assert [portion.spans() for portion in scene.queue.portions()] == [[span(2)]]


def test_counts_are_bounded_and_forgotten_when_a_message_is_done() -> None:
    counts = TryCounts()
    assert counts.add((Tries("p", "s", 1, 1, 4, 2),))
    assert not counts.add((Tries("p", "s", 1, 2, 3, 1),)), "the greater count is kept"
    counts.forget(("p", "s", 1), 2, 3)
    assert counts.all() == (Tries("p", "s", 1, 1, 1, 2), Tries("p", "s", 1, 4, 4, 2))
    for number in range(1, 40):
        counts.add((Tries("q", "s", 1, number * 1_000, number * 1_000 + 999, 1),))
    assert sum(each.last - each.first + 1 for each in counts.all()) < 21_500


def test_messages_that_come_back_one_by_one_cost_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 4,096 that a consumer rejected in one message had all before it moved, which took 48 s."""
    moved = 0
    place = waiting_portions.place_of

    def counted(portion: Portion) -> tuple[int, int]:
        nonlocal moved
        moved += 1
        return place(portion)

    scene = Scene()
    for _ in range(2):
        scene.publish(1024)
    scene.join("a", window=1 << 16)
    assert len(scene.at(0)) == 2048
    monkeypatch.setattr(waiting_portions, "place_of", counted)
    for number in range(1, 2049):
        scene.queue.nack("a", span(number), 0)
    assert moved <= 2 * 2048
    handed = scene.at(0)
    assert [number for _, number, _ in handed] == list(range(1, 2049)), "in their old places"


def test_a_message_is_found_among_a_thousand_portions_of_its_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """With keys each message is a portion of its own, and one acknowledgement looked at all of them."""
    scene = Scene(ack_wait_us=S)
    scene.publish(1024, "k")
    scene.join("a", window=1 << 16)
    scene.queue.nack("a", span(1), 0)
    scene.at(0)
    for number in range(1, 1025):
        scene.queue.extend("a", span(number))
    index = scene.queue.consumers["a"].out
    for number in range(1, 1025):
        assert len(index.find(("p", "ordered", 1), number, number)) <= PIECES_LISTED
    found = {portion.spans()[0].first for portion in index.find(("p", "ordered", 1), 1, 1 << 53)}
    assert found == {portion.spans()[0].first for portion in scene.queue.portions() if portion.holder}


def test_times_of_messages_that_are_extended_or_done_are_forgotten() -> None:
    """A consumer that asks for more time, or for a delay of years, and then acknowledges, leaves nothing behind."""
    scene = Scene(ack_wait_us=S)
    scene.publish(10)
    scene.join("a")
    scene.at(0)
    for _ in range(STALE_MAX):
        scene.queue.extend("a", span(1, 10))
    assert scene.queue.retries.timed <= STALE_MAX + 20
    scene = Scene()
    for number in range(1, 4 * STALE_MAX):
        scene.publish()
        if number == 1:
            scene.join("a", window=1 << 16)
        scene.at(0)
        scene.queue.nack("a", span(number), 1 << 60)
        scene.queue.acknowledge("a", span(number))
    assert scene.queue.retries.timed <= 3 * STALE_MAX
    assert len(scene.took) == 4 * STALE_MAX - 1


def test_messages_that_are_named_again_and_again_in_one_message_count_once() -> None:
    """A consumer named all it had in each of 16,384 spans: each of them was looked through."""
    wide, other = Span("p", "ordered", 1, 1, 1 << 53), Span("q", "ordered", 1, 7, 7)
    assert list(disjoint((wide, span(3), other, wide, span(2, 9), other))) == [wide, other]
    assert list(disjoint((span(4, 6), span(1, 2), span(5, 9)))) == [span(1, 2), span(4, 9)]
    assert list(disjoint((span(1, 2), span(3)))) == [span(1, 2), span(3)]


def test_a_count_that_another_broker_made_up_stays_within_the_bound_of_messages() -> None:
    """It is told to other brokers and to consumers, who would cut off the broker that tells more."""
    scene = Scene(tries=(Tries("p", "ordered", 1, 1, 1, NUMBER_MAX),))
    scene.queue.again_below = 1_000
    scene.publish(1)
    scene.join("a")
    assert len(scene.at(0)) == 1
    scene.queue.nack("a", span(1), 0)
    (told,) = scene.queue.retries.take_untold()
    assert told.times == NUMBER_MAX


class CountedNumber(int):
    """A number that counts how often it is compared."""

    compared = 0

    def __le__(self, other: int) -> bool:
        CountedNumber.compared += 1
        return int(self) <= other


def test_counts_beyond_those_that_are_remembered_cost_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 2,000 ranges was compared with 20,000 numbers: every broker took 3 s for what came back in half a second,
    as long as it did."""
    monkeypatch.setattr("resprout.edge.broker.retries.TRIES_KEPT", 1_000)
    counts = TryCounts([Tries("p", "ordered", 1, seq, seq, 1) for seq in range(1, 1_001)])
    told = [Tries("p", "ordered", 1, CountedNumber(seq), seq, 2) for seq in range(501, 1_501)]
    assert [each.first for each in counts.add(told)] == [*range(501, 1_001)]
    assert CountedNumber.compared == 0
    assert len(counts.of(("p", "ordered", 1))) == 1_000


def test_counts_of_what_is_not_told_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resprout.edge.broker.retries.TRIES_KEPT", 10)
    scene = Scene()
    scene.publish(1)
    for delivery in range(100):
        scene.join(f"c{delivery}")
        scene.at(0)
        scene.queue.leave(f"c{delivery}")
    told: list[Tries] = []
    while untold := scene.queue.retries.take_untold():
        told += untold
    assert 10 <= len(told) <= 20
    assert told[-1].times == 100
