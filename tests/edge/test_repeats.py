"""Repeats of a message, by its id: one durable subscription, without a network around it."""

from typing import Any

import pytest

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads, stow
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.message_ids import ID_BYTES, MESSAGE_ID_BYTES, WINDOW_US
from resprout.core.timing import MESSAGE_ID
from resprout.edge.broker import known_ids
from resprout.edge.broker.known_ids import KnownIds, check_ids
from resprout.edge.broker.portion import Consumer, Portion
from resprout.edge.broker.repeats import Repeats
from resprout.edge.broker.retries import Retries
from resprout.edge.broker.retry_queue import RetryQueue
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import ID_ENTRY_BYTES, IdBatch, IdBatches, Span
from resprout_lab.blocks.retention import KeptItem

S = 1_000_000


class Shelf:
    """Where columns lie that were put on disk."""

    used = places = 0
    trouble = ""

    def put(self, content: bytes) -> Any:
        return content

    def get(self, place: Any) -> bytes:
        return bytes(place)

    def forget(self, place: Any) -> None: ...


class Scene:
    def __init__(self, ids: IdBatches = (), again_below: int = 0, window_us: int = WINDOW_US) -> None:
        self.session = ClientSession("=jobs", 0, 0)
        self.took: list[KeptItem] = []
        took: Any = self.took.append
        self.repeats = Repeats(window_us, ids)
        self.queue = RetryQueue(self.session, True, took, (), retries=Retries(None, repeats=self.repeats))
        self.queue.again_below = again_below
        self._no = 0

    def publish(self, publisher: str, *ids: str | None, topic: str = "t", first: int = 1, stowed: bool = False) -> None:
        rows = [{} if id is None else {MESSAGE_ID: id} for id in ids]
        payloads = pack_payloads([b"x"] * len(ids))
        bundle = Bundle(
            publisher, 1, first, len(ids), 1, topic, (), Guarantee.CAUSAL, pack_attributes(rows), payloads
        )  # fmt: skip
        self._no += 1
        if stowed:
            put_aside = stow(bundle, Shelf())
            assert put_aside is not None
            bundle = put_aside
        self.session.backlog.append(KeptItem(bundle, self._no, None, False))
        self.queue.fill()

    def join(self, name: str, *, has: tuple[Span, ...] = (), done: tuple[Span, ...] = ()) -> None:
        self.queue.join(Consumer(ClientSession(name, 1, 1 << 20), 100, has), done)

    def handed(self, seconds: float = 0) -> list[str]:
        """Hand out what waits."""
        self.queue.retries.now_us = int(seconds * S)
        self.queue.decide_repeats(is_final=True)
        handed: list[str] = []

        def give(consumer: Consumer, portion: Portion) -> None:
            handed.extend([f"{portion.origin[0]}{portion.first + offset}" for offset in portion.offsets])

        self.queue.hand_out(give)
        return handed

    def done(self, publisher: str, seq: int = 1) -> None:
        self.queue.acknowledge("c", span(publisher, seq))


def span(publisher: str, first: int, last: int = 0) -> Span:
    return Span(publisher, "ordered", 1, first, last or first)


def tell(scene: Scene) -> IdBatches:
    """A heartbeat."""
    scene.queue.decide_repeats(is_final=False)
    scene.queue.release_dropped()
    ids = scene.repeats.take_untold()
    scene.queue.told()
    return ids


@pytest.mark.parametrize("stowed", [False, True])
def test_a_message_with_the_id_and_topic_of_another_one_is_dropped_whoever_published_it(stowed: bool) -> None:
    scene = Scene()
    scene.join("c")
    scene.publish("a", "x", "y", "x", None, None, stowed=stowed)
    scene.publish("b", "y", "z", stowed=stowed)
    scene.publish("b", "x", topic="other", first=3)
    assert scene.handed() == ["a1", "a2", "a4", "a5", "b2", "b3"]
    assert scene.repeats.dropped == 2


def test_an_id_is_forgotten_after_the_window() -> None:
    scene = Scene(window_us=10 * S)
    scene.join("c")
    scene.publish("a", "x")
    assert scene.handed(9.9) == ["a1"]
    scene.publish("b", "x")
    assert scene.handed(20) == [], "the second came within the window"
    scene.publish("d", "x")
    scene.publish("e", "x")
    assert scene.handed(20) == ["d1"]


def test_a_window_of_nothing_drops_nothing() -> None:
    scene = Scene(window_us=0)
    scene.join("c")
    scene.publish("a", "x", "x")
    assert scene.handed() == ["a1", "a2"]


@pytest.mark.parametrize("id", ["", "x" * (MESSAGE_ID_BYTES + 1), "ä" * MESSAGE_ID_BYTES, 7, True])
def test_what_is_no_id_repeats_nothing(id: Any) -> None:
    scene = Scene()
    scene.join("c")
    scene.publish("a", id, id)
    assert scene.handed() == ["a1", "a2"]


def test_a_message_is_kept_in_the_log_until_others_were_told_of_its_id() -> None:
    scene = Scene()
    scene.join("c")
    scene.publish("a", "x")
    scene.publish("b", "x")
    assert len(scene.took) == 1, "a repeat is done at once"
    assert scene.handed() == ["a1"]
    scene.done("a")
    assert len(scene.took) == 1
    assert len(tell(scene)) == 1 and len(scene.took) == 1
    assert tell(scene) == () and len(scene.took) == 2


def test_the_next_broker_drops_repeats_of_what_it_was_told_and_not_the_message_itself() -> None:
    former = Scene()
    former.publish("a", "x")
    former.publish("b", "x")
    scene = Scene(tell(former), again_below=100)
    scene.publish("b", "x")
    scene.publish("a", "x")
    scene.join("c")
    assert scene.handed() == ["a1"]


@pytest.mark.parametrize("is_done", [False, True])
def test_the_next_broker_that_was_not_told_believes_the_consumer(is_done: bool) -> None:
    scene = Scene(again_below=100)
    scene.publish("b", "x")
    scene.publish("a", "x")
    scene.publish("d", "y")
    scene.join("c", **{"done" if is_done else "has": (span("a", 1),)})
    assert tell(scene) != (), "what a consumer was handed is told before the end of the wait for others"
    assert scene.handed() == ["d1"]
    scene.queue.leave("c")
    scene.join("e")
    assert scene.handed() == ([] if is_done else ["a1"]) + ["d1"], "it was not dropped"


def test_the_next_broker_takes_one_of_them_if_no_consumer_knows_and_keeps_both_until_then() -> None:
    scene = Scene(again_below=100)
    scene.publish("b", "x")
    scene.publish("a", "x")
    assert tell(scene) == () and tell(scene) == () and not scene.took
    scene.publish("d", "x")
    scene.join("c")
    assert scene.handed() == ["b1"]
    assert scene.repeats.dropped == 2


def test_ids_that_others_tell_are_bounded_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "IDS_MAX", 3)
    entries = [bytes([n]) * ID_ENTRY_BYTES for n in range(5)]
    known = KnownIds()
    assert known.add((IdBatch(7, b"".join(entries)),)) != ()
    assert len(known) == 3
    assert known.add((IdBatch(7, entries[4]), IdBatch(6, entries[3]))) == (), "nothing of it is new"
    assert known.find(entries[4][:ID_BYTES], 7) == entries[4][ID_BYTES:]
    assert known.find(entries[4][:ID_BYTES], 8) is None
    assert KnownIds(known.all()).all() == known.all()
    known.forget(8)
    assert not known
    for wrong in ((IdBatch(7, b"x"),), (IdBatch(7, entries[0] * 4),)):
        with pytest.raises(PeerError):
            check_ids(wrong)


# -- follow-ups --------------------------------------------------------------------------------------------------------


def test_a_message_whose_follow_up_is_under_way_is_handed_to_nobody_until_it_is_done() -> None:
    scene = Scene()
    scene.join("c")
    scene.publish("a", None, None, None)
    assert scene.handed() == ["a1", "a2", "a3"]
    portion = scene.queue.set_aside(["c"], span("a", 2))
    assert portion is not None and list(portion.offsets) == [1]
    assert scene.queue.set_aside(["c"], span("a", 2)) is None, "it is under way"
    scene.queue.leave("c")
    scene.join("e")
    assert scene.handed() == ["a1", "a3"]
    assert scene.queue.purge() == 0
    scene.queue.acknowledge("e", span("a", 1, 3))
    assert not scene.queue.is_done(("a", "ordered", 1), 2) and not scene.took
    scene.queue.is_followed(portion)
    assert scene.queue.is_done(("a", "ordered", 1), 2) and len(scene.took) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_the_follow_up_of_a_consumer_that_is_gone_takes_the_message_from_where_it_is(count: int) -> None:
    scene = Scene()
    scene.join("c")
    scene.publish("a", *[None] * count)
    scene.handed()
    scene.queue.leave("c")
    waits = scene.queue.waiting
    assert scene.queue.set_aside(["c"], span("a", 1)) is not None, "it waits again"
    assert scene.queue.waiting == waits - 1
    scene.join("e")
    assert scene.handed() == ["a2", "a3"][: count - 1]
    if count > 1:
        assert scene.queue.set_aside(["c"], span("a", 3)) is not None, "another consumer has it"
    scene.publish("b", None)
    assert scene.queue.set_aside(["c"], span("b", 1)) is None, "no consumer was handed it"


def test_later_messages_of_a_key_wait_for_a_follow_up() -> None:
    scene = Scene()
    scene.join("c")
    for first in (1, 2):
        bundle = Bundle("a", 1, first, 1, 1, "t", ("k",), Guarantee.CAUSAL, b"", pack_payloads([b"x"]))
        scene.session.backlog.append(KeptItem(bundle, first, None, False))
        scene.queue.fill()
        if first == 1:
            assert scene.handed() == ["a1"]
            portion = scene.queue.set_aside(["c"], span("a", 1))
    assert scene.handed() == []
    assert portion is not None
    scene.queue.is_followed(portion)
    assert scene.handed() == ["a2"]
