"""Who is handed what of a durable subscription: one queue, without a network around it."""

import random

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import NUMBER_MAX, Mark
from resprout.edge.broker.portion import CLAIMED_MAX, Consumer, DropCount, Portion
from resprout.edge.broker.queue_progress import SPANS_TOLD_MAX
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sharing import SharedQueue
from resprout.edge.durable_messages import Drops, Span
from resprout_lab.blocks.retention import KeptItem
from tests.soak import cases


class Scene:
    def __init__(self, is_shared: bool, done: tuple[Mark, ...] = (), spans: tuple[Span, ...] = ()) -> None:
        self.is_shared = is_shared
        self.session = ClientSession("=jobs", 0, 0)
        self.took: list[KeptItem] = []
        self.queue = SharedQueue(self.session, is_shared, self.took.append, done, spans)  # type: ignore[arg-type]
        self.handed: list[tuple[str, int, bool]] = []
        """(consumer, number, whether it says that it may have been handed out before)."""
        self._last = 0

    def publish(self, count: int = 1, *keys: str) -> None:
        payloads = pack_payloads([b"x"] * count)
        bundle = Bundle("p", 1, self._last + 1, count, 1, "jobs", keys, Guarantee.CAUSAL, b"", payloads)
        self._last += count
        item = KeptItem(bundle, 0, None, False)
        self.session.backlog.append(item)
        self.queue.fill()

    def skip(self, count: int) -> None:
        self._last += count

    def join(self, name: str, window: int = 100, has: tuple[Span, ...] = (), done: tuple[Span, ...] = ()) -> None:
        self.queue.join(Consumer(ClientSession(name, 1, 1 << 20), window, has), done)

    def hand_out(self) -> list[tuple[str, int, bool]]:
        before = len(self.handed)
        self.queue.hand_out(self._give)
        return self.handed[before:]

    def _give(self, consumer: Consumer, portion: Portion) -> None:
        name, first = consumer.session.name, portion.bundle.first
        self.handed += [(name, first + offset, portion.redelivered) for offset in portion.offsets]

    def acknowledge(self, name: str, *numbers: int) -> None:
        for number in numbers:
            self.queue.acknowledge(name, Span("p", "ordered", 1, number, number))


def ordered(first: int, last: int) -> Span:
    return Span("p", "ordered", 1, first, last)


def test_a_bundle_is_shared_and_is_taken_when_all_of_it_is_done() -> None:
    scene = Scene(is_shared=True)
    scene.join("a")
    scene.join("b")
    scene.publish(10)
    given = scene.hand_out()
    assert sorted(number for _, number, _ in given) == list(range(1, 11))
    assert [sum(name == who for name, _, _ in given) for who in "ab"] == [5, 5]
    for name, number, _ in given[:-1]:
        scene.acknowledge(name, number)
    assert not scene.took
    scene.acknowledge(given[-1][0], given[-1][1])
    assert len(scene.took) == 1
    assert scene.queue.progress() == ((Mark("p", "ordered", 1, 10),), ())


def test_a_key_stays_with_whoever_has_messages_of_it_out_and_is_free_afterwards() -> None:
    scene = Scene(is_shared=True)
    scene.join("a", window=1)
    scene.join("b", window=10)
    scene.publish(1, "k")
    (first,) = scene.hand_out()
    scene.publish(1, "k")
    scene.publish(1, "other")
    later = scene.hand_out()
    if first[0] == "a":  # it has no room, so the second of the key waits, and what names another one does not
        assert [number for _, number, _ in later] == [3]
        scene.acknowledge("a", 1)
        assert [number for _, number, _ in scene.hand_out()] == [2]
    else:
        assert ("b", 2, False) in later


def test_what_names_keys_of_two_consumers_waits_for_both() -> None:
    scene = Scene(is_shared=True)
    scene.join("a", window=1)
    scene.join("b", window=1)
    scene.publish(1, "k")
    scene.publish(1, "l")
    out = {number: name for name, number, _ in scene.hand_out()}
    assert out[1] != out[2]
    scene.publish(1, "k", "l")
    scene.publish(1, "l")
    scene.acknowledge(out[1], 1)
    assert scene.hand_out() == [], "neither it, nor what must not overtake it"
    scene.acknowledge(out[2], 2)
    assert scene.hand_out()[0][1] == 3


def test_what_a_consumer_had_out_waits_again_in_its_place_and_says_so() -> None:
    scene = Scene(is_shared=False)
    scene.join("a", window=4)
    for _ in range(6):
        scene.publish()
    assert [number for _, number, _ in scene.hand_out()] == [1, 2, 3, 4]
    scene.acknowledge("a", 2)
    scene.queue.leave("a")
    scene.join("b")
    assert scene.hand_out() == [("b", 1, True), ("b", 3, True), ("b", 4, True), ("b", 5, False), ("b", 6, False)]


def test_what_a_consumer_has_from_elsewhere_is_not_handed_to_it_again_nor_what_it_did() -> None:
    scene = Scene(is_shared=False, done=(Mark("p", "ordered", 1, 2),))
    scene.queue.again_below = 1
    scene.publish(8)
    scene.join("a", has=(Span("p", "ordered", 1, 4, 5),), done=(Span("p", "ordered", 1, 1, 3),))
    assert [number for _, number, _ in scene.hand_out()] == [6, 7, 8]
    scene.acknowledge("a", 4, 5, 6, 7, 8)
    assert len(scene.took) == 1


def test_marks_stop_before_a_bundle_of_which_something_is_not_done() -> None:
    scene = Scene(is_shared=False)
    scene.join("a")
    scene.publish(3)
    scene.publish(3)
    scene.hand_out()
    scene.acknowledge("a", 1, 2, 3, 4, 5)
    assert scene.queue.progress() == ((Mark("p", "ordered", 1, 3),), (Span("p", "ordered", 1, 4, 5),))
    scene.acknowledge("a", 6)
    assert scene.queue.progress() == ((Mark("p", "ordered", 1, 6),), ())


def test_the_oldest_are_dropped_in_the_middle_of_a_bundle_too() -> None:
    scene = Scene(is_shared=False)
    scene.publish(5)
    scene.publish(5)
    scene.queue.drop_oldest(3, 1 << 40)
    assert scene.queue.drops.messages == 7
    assert scene.queue.waiting == 3
    assert not scene.took, "the log keeps what was dropped until other brokers know how much that was"
    scene.queue.dropped_items.tell()
    scene.queue.release_dropped()
    assert len(scene.took) == 1
    scene.join("a")
    assert [number for _, number, _ in scene.hand_out()] == [8, 9, 10]


def test_a_count_of_dropped_messages_goes_on_from_what_a_consumer_was_told_elsewhere() -> None:
    """The broker before this one had told other brokers of 4, and the consumer of 9. This one has dropped 2 by then."""
    drops = DropCount(Drops(4, 3))
    drops.add(2)
    drops.heard_before(9, is_own=False)
    drops.heard_before(9, is_own=False)
    drops.heard_before(7, is_own=False)
    assert drops.known() == Drops(11, 9), "it is added once"
    drops.heard_before(11, is_own=True)
    assert drops.known() == Drops(11, 11)
    drops.heard_before(50, is_own=True)
    assert drops.known() == Drops(11, 11), "this broker has not said that"
    drops.heard_before(NUMBER_MAX, is_own=False)
    assert drops.known() == Drops(CLAIMED_MAX + 2, CLAIMED_MAX + 2), "a false claim leaves room for real drops"


@pytest.mark.parametrize("seed", range(cases(20, 300)))
def test_over_arbitrary_comings_and_goings_everything_is_done_and_every_key_keeps_its_order(seed: int) -> None:
    rng = random.Random(f"sharing {seed}")
    scene = Scene(is_shared=rng.random() < 0.7)
    keys: dict[int, tuple[str, ...]] = {}
    names: list[str] = []
    out: dict[str, list[int]] = {}
    done: set[int] = set()
    last = made = 0

    def hand_out() -> None:
        for name, number, _ in scene.hand_out():
            for key in keys[number]:
                earlier = [n for n, named in keys.items() if key in named and n < number and n not in done]
                assert all(n in out[name] for n in earlier), (name, number, key)
            out[name].append(number)

    for _ in range(80):
        action = rng.random()
        if action < 0.4:
            count, named = rng.randint(1, 6), tuple(sorted(set(rng.choices("xyz", k=rng.randint(0, 2)))))
            named = named if rng.random() < 0.7 else ()
            keys |= {last + n: named if scene.is_shared else () for n in range(1, count + 1)}
            last += count
            scene.publish(count, *named)
        elif action < 0.5 and (not names or scene.is_shared):
            made += 1
            names.append(f"w{made}")
            out[names[-1]] = []
            scene.join(names[-1], rng.choice((1, 3, 50)))
        elif action < 0.56 and names:
            name = names.pop(rng.randrange(len(names)))
            scene.queue.leave(name)
            del out[name]
        elif names:
            name = rng.choice(names)
            if out[name]:
                number = out[name].pop(rng.randrange(len(out[name])) if rng.random() < 0.3 else 0)
                done.add(number)
                scene.acknowledge(name, number)
        hand_out()
    for name in names:
        scene.queue.leave(name)
    out = {"last": []}
    scene.join("last", 10**6)
    hand_out()
    assert set(out["last"]) | done == set(range(1, last + 1))
    scene.acknowledge("last", *out["last"])
    assert scene.queue.waiting == 0
    assert sum(item.bundle.count for item in scene.took) == last


def test_what_is_done_beyond_a_message_that_waits_is_told_exactly_and_as_few_ranges() -> None:
    scene = Scene(is_shared=True)
    scene.join("a")
    scene.publish(4)
    scene.publish(1)
    for _ in range(3):
        scene.skip(10)  # is not for this subscription
        scene.publish(2)
    scene.hand_out()
    scene.acknowledge("a", 1, 3, 5, 16, 17, 28, 29)
    assert scene.queue.progress() == ((), (ordered(1, 1), ordered(3, 3), ordered(5, 29)))
    scene.acknowledge("a", 41)
    assert scene.queue.progress() == ((), (ordered(1, 1), ordered(3, 3), ordered(5, 39), ordered(41, 41)))
    scene.acknowledge("a", 2, 4)
    assert scene.queue.progress() == ((Mark("p", "ordered", 1, 39),), (ordered(41, 41),))
    scene.acknowledge("a", 40)
    assert scene.queue.progress() == ((Mark("p", "ordered", 1, 41),), ())
    assert scene.queue.progress() == ((), ())


def test_what_was_done_elsewhere_beyond_the_watermark_is_handed_to_nobody() -> None:
    scene = Scene(is_shared=True, done=(Mark("p", "ordered", 1, 2),), spans=(ordered(4, 5), ordered(8, 9)))
    scene.publish(2)
    scene.publish(4)
    scene.publish(3)
    scene.publish(1)
    scene.join("a")
    assert [number for _, number, _ in scene.hand_out()] == [3, 6, 7, 10]
    assert len(scene.took) == 1
    scene.acknowledge("a", 3, 7)
    assert scene.queue.progress() == ((Mark("p", "ordered", 1, 2),), (ordered(3, 5), ordered(7, 9)))


@pytest.mark.parametrize("joins_first", [False, True])
def test_whoever_has_a_message_of_a_key_says_that_earlier_ones_are_done_unless_it_has_them(joins_first: bool) -> None:
    """Their acknowledgements died with the consumer and the broker; handed out again, the key would lose its order."""
    scene = Scene(is_shared=True)
    scene.queue.again_below = 1
    has = (ordered(2, 2), ordered(6, 6))
    if joins_first:
        scene.join("a", has=has)
    scene.publish(1, "k")
    scene.publish(1, "k")
    scene.publish(1, "l")
    scene.publish(1)
    scene.publish(3, "k", "l")
    scene.publish(1, "k")
    if not joins_first:
        scene.join("a", has=has)
    assert [number for _, number, _ in scene.hand_out()] == [4, 7, 8]
    assert len(scene.took) == 2
    scene.queue.leave("a")
    scene.join("b")
    assert [number for _, number, _ in scene.hand_out()] == [2, 4, 6, 7, 8], "what it had is not done"


def test_of_many_gaps_only_so_many_are_told() -> None:
    scene = Scene(is_shared=True)
    scene.join("a", window=10 * SPANS_TOLD_MAX)
    for _ in range(4):
        scene.publish(SPANS_TOLD_MAX)
    scene.hand_out()
    scene.acknowledge("a", *range(2, 4 * SPANS_TOLD_MAX, 2))
    marks, spans = scene.queue.progress()
    assert not marks and spans == tuple([ordered(n, n) for n in range(2, 2 * SPANS_TOLD_MAX + 1, 2)])


def test_a_false_count_of_drops_leaves_room_to_count_real_ones() -> None:
    """A consumer that joins states how many drops it was told of. Others must still learn of later drops."""
    drops = DropCount(Drops(0, 0))
    drops.heard_before(NUMBER_MAX, is_own=False)
    drops.add(3)
    assert drops.untold == 3
