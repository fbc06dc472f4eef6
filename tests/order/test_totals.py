"""One broker's totals, word by word: what it says, when it delivers, what it refuses."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark
from resprout.order.clock import Clock
from resprout.order.messages import (
    Closed,
    KnownLock,
    Lock,
    Submit,
    id_of,
)
from resprout.order.totals.handover import Handover
from resprout.order.totals.totals import Totals
from tests.order.examples import publication


@dataclasses.dataclass
class Stand:
    """Where a broker stands."""

    parent: str | None
    neighbours: dict[str, bool]
    epoch: int = 0


class Desk:
    """`Totals` with everything around it written down."""

    def __init__(self, parent: str | None = None, *neighbours: str) -> None:
        self.position = Stand(parent, dict.fromkeys(neighbours, True))
        self.clock = Clock()
        self.said: list[tuple[str, ProtocolMessage]] = []
        self.delivered: list[tuple[Bundle, int]] = []
        self.seen: set[Any] = set()
        self.totals = Totals(
            self.position,
            self.clock,
            lambda peer, message: self.said.append((peer, message)),
            lambda bundle, tseq, prompt, is_repeat: self.on_delivered(bundle, tseq),
            lambda bundle: id_of(bundle) in self.seen,
        )
        self.handover = Handover(self.totals)
        self.on_delivered: Callable[[Bundle, int], None] = lambda bundle, tseq: self.delivered.append((bundle, tseq))

    def hear(self, peer: str, message: ProtocolMessage) -> list[tuple[str, ProtocolMessage]]:
        """What the broker says in answer."""
        before = len(self.said)
        totals = self.totals
        takes: dict[type, Callable[[str, Any], None]] = {
            Submit: totals.take_submit, Lock: totals.take_lock, Closed: totals.take_closed,
        }  # fmt: skip
        takes[type(message)](peer, message)
        return self.said[before:]


def total(publisher: str = "c", first: int = 1, keys: tuple[str, ...] = ("k",), **extra: Any) -> Bundle:
    return publication(publisher, first, keys, Guarantee.TOTAL, **extra)


def plain(*keys: str, topic: str = "t", guarantee: Guarantee = Guarantee.CAUSAL) -> Bundle:
    return publication("other", 1, keys, guarantee, topic=topic)


def closed(bundle: Bundle, stamp: int) -> Closed:
    return Closed(*id_of(bundle), stamp)


# -- submit and lock ---------------------------------------------------------------------------------------------------


def test_a_broker_alone_delivers_at_once_above_its_clock() -> None:
    desk = Desk()
    desk.clock.now = 7
    desk.totals.submit(total())
    assert desk.delivered == [(total(stamp=9), 1)], "it becomes active at 8"
    assert desk.clock.now == 9
    assert desk.totals.pending == 0


def test_a_long_queue_of_totals_is_no_deep_recursion() -> None:
    desk = Desk()
    waiting = [total(first=n) for n in range(5_000, 0, -1)]

    def deliver(bundle: Bundle, tseq: int) -> None:
        desk.delivered.append((bundle, tseq))
        if waiting:
            desk.totals.submit(waiting.pop())

    desk.on_delivered = deliver
    desk.totals.submit(waiting.pop())
    assert [bundle.first for bundle, _ in desk.delivered] == list(range(1, 5_001))
    assert [tseq for _, tseq in desk.delivered] == list(range(1, 5_001))


def test_a_total_is_passed_up_and_kept_until_its_lock_comes_down() -> None:
    desk = Desk("up", "up", "left")
    assert desk.hear("left", Submit(total())) == [("up", Submit(total()))]
    assert desk.totals.own("c") == total()
    assert [(w.bundle, w.place) for w in desk.totals.waiting()] == [(total(), None)]
    assert desk.hear("up", Lock(0, 5, total())) == [("left", Lock(0, 5, total()))]
    assert desk.totals.pending == 1, "it is counted once, as a submission or as a lock"
    desk.totals.resubmit()
    assert len(desk.said) == 2, "what has its place is not submitted again"


def test_what_could_not_be_passed_up_is_submitted_when_there_is_a_way_up_again() -> None:
    desk = Desk("up", "up")
    desk.position.neighbours["up"] = False
    desk.totals.submit(total())
    assert desk.said == []
    desk.position.neighbours = {"new": True}
    desk.position.parent = "new"
    desk.totals.resubmit()
    assert desk.said == [("new", Submit(total()))]


def test_a_new_root_numbers_from_one_under_its_own_epoch() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(3, 9, total("a")))
    desk.hear("up", closed(total("a"), 0))
    desk.totals.submit(total())
    desk.position.parent, desk.position.neighbours = None, {}
    assert desk.position.epoch == 3
    with pytest.raises(AssertionError, match="given again"):
        desk.totals.become_root(3)
    desk.totals.become_root(4)
    desk.totals.resubmit()
    assert desk.delivered[-1] == (total(stamp=4), 4 << 40 | 1)


def test_of_a_total_that_was_ordered_in_part_the_rest_is_ordered() -> None:
    """Its publisher returned at another broker, and repeated 1 to 3 in a bundle of 1 to 5."""
    root = Desk(None, "left", "right")
    root.hear("left", Submit(total(count=3)))
    said = root.hear("right", Submit(total(count=5)))
    assert said[0] == ("left", Lock(0, 4, total(first=4, count=2)))
    assert root.hear("right", Submit(total(first=6)))[0] == ("left", Lock(0, 6, total(first=6)))
    assert root.handover.last() == (Mark("c", "ordered", 1, 6),)


def test_of_what_was_passed_up_and_ordered_in_part_the_rest_waits_in_its_place() -> None:
    desk = Desk("up", "up")
    for bundle in (total(count=5), total(first=6), total("d")):
        desk.totals.submit(bundle)
    desk.hear("up", Lock(0, 1, total(count=3)))
    assert [w.bundle for w in desk.totals.waiting() if w.place is None] == [
        total(first=4, count=2), total(first=6), total("d"),
    ]  # fmt: skip
    assert desk.totals.pending == 4
    before = len(desk.said)
    desk.totals.resubmit()
    assert desk.said[before] == ("up", Submit(total(first=4, count=2)))


def test_the_longer_of_two_bundles_that_begin_alike_is_passed_up_again() -> None:
    for sizes in ((3, 5), (5, 3)):
        desk = Desk("up", "up", "left", "right")
        for name, count in zip(("left", "right"), sizes, strict=True):
            desk.hear(name, Submit(total(count=count)))
        assert [w.bundle for w in desk.totals.waiting()] == [total(count=5)]


def test_a_total_that_cannot_be_split_is_dropped() -> None:
    root = Desk(None, "left")
    root.hear("left", Submit(total(count=3)))
    torn = Bundle("c", 1, 1, 5, 0, "t", ("k",), Guarantee.TOTAL, b"", b"\xc1")
    assert root.hear("left", Submit(torn)) == []


def test_what_is_not_newer_than_its_publishers_last_total_is_dropped() -> None:
    desk = Desk(None, "left")
    desk.totals.submit(total(first=5))
    for old in (total(first=5), total(first=4)):
        assert desk.hear("left", Submit(old)) == []
    assert desk.totals.pending == 1
    assert desk.hear("left", Submit(total(first=1, incarnation=2)))[0] == (
        "left",
        Lock(0, 2, total(first=1, incarnation=2)),
    ), "a new life counts from one again"


def test_a_lock_is_taken_and_passed_on_once() -> None:
    desk = Desk("up", "up", "left")
    assert desk.hear("up", Lock(0, 1, total()))
    assert desk.hear("up", Lock(0, 1, total())) == []
    desk.hear("up", Lock(0, 3, total("e")))
    desk.seen.add(id_of(total("d")))
    assert desk.hear("up", Lock(0, 2, total("d"))) == [], "delivered long ago"


def test_a_total_with_a_new_place_is_closed_even_if_its_number_was_seen_before() -> None:
    desk = Desk("up", "up")
    desk.seen.add(id_of(total("d")))
    assert desk.hear("up", Lock(0, 1, total("d"))) == [("up", closed(total("d"), 1))], "others wait for this broker"


def test_a_total_that_a_newer_life_has_overtaken_no_longer_waits_for_its_order() -> None:
    desk = Desk("up", "up")
    desk.totals.submit(total(first=9))
    desk.hear("up", Lock(0, 1, total(first=1, incarnation=2)))
    assert desk.totals.own("c") == total(first=1, incarnation=2)
    assert desk.totals.pending == 1


# -- close and deliver -------------------------------------------------------------------------------------------------


def test_a_leaf_closes_at_its_clock_and_delivers_when_the_rest_is_closed() -> None:
    desk = Desk("up", "up")
    desk.clock.now = 4
    assert desk.hear("up", Lock(0, 1, total())) == [("up", closed(total(), 5))]
    assert desk.hear("up", closed(total(), 9)) == []
    assert desk.delivered == [(total(stamp=10), 1)]
    assert desk.clock.now == 10


def test_each_neighbour_is_told_the_highest_stamp_of_all_others() -> None:
    desk = Desk("up", "up", "left", "right")
    assert desk.hear("up", Lock(0, 1, total())) == [("left", Lock(0, 1, total())), ("right", Lock(0, 1, total()))]
    assert desk.hear("left", closed(total(), 7)) == []
    assert desk.hear("right", closed(total(), 3)) == [("up", closed(total(), 7))]
    assert desk.hear("up", closed(total(), 5)) == [("left", closed(total(), 5)), ("right", closed(total(), 7))]
    assert desk.delivered == [(total(stamp=8), 1)]


def test_a_silent_link_in_repair_is_never_counted_as_closed() -> None:
    desk = Desk("up", "up", "left")
    desk.hear("up", Lock(0, 1, total()))
    desk.position.neighbours["left"] = False
    assert desk.hear("up", closed(total(), 1)) == [], "left would be told, but cannot be"
    assert desk.hear("left", closed(total(), 1)) == [], "too late: the link is in repair"
    assert desk.delivered == []
    assert desk.totals.waiting()[0].neighbours == ("left",)


def test_what_a_dead_broker_said_before_it_died_is_a_fact() -> None:
    desk = Desk("up", "up", "left")
    desk.hear("up", Lock(0, 1, total()))
    assert desk.hear("left", closed(total(), 6)) == [("up", closed(total(), 6))]
    desk.position.neighbours["left"] = False
    desk.hear("up", closed(total(), 1))
    assert desk.delivered == [(total(stamp=7), 1)]


def test_totals_are_active_side_by_side_also_with_a_common_key_and_each_closes_above_the_one_before() -> None:
    desk = Desk("up", "up")
    first, second, apart = total("a", keys=("x", "y")), total("b", keys=("y", "z")), total("d", keys=("q",))
    for number, bundle in enumerate((first, second, apart)):
        desk.hear("up", Lock(0, number, bundle))
    assert [message for _, message in desk.said] == [closed(first, 1), closed(second, 2), closed(apart, 3)]
    assert desk.totals.is_gated(plain("y")) and desk.totals.is_gated(plain("z")) and desk.totals.is_gated(plain("q"))
    desk.hear("up", closed(first, 3))
    assert desk.delivered == [(first.stamped(4), 0)]
    assert desk.totals.is_gated(plain("y")), "the second one holds it still"
    assert not desk.totals.is_gated(plain("x"))
    desk.hear("up", closed(second, 4))
    desk.hear("up", closed(apart, 5))
    assert [bundle.stamp for bundle, _ in desk.delivered] == [4, 5, 6]


def test_what_is_carried_has_its_place_among_totals_and_is_no_barrier() -> None:
    desk = Desk("up", "up")
    for number, bundle in enumerate((total("a"), carried := publication("b", 1, ("x",), Guarantee.CAUSAL))):
        desk.hear("up", Lock(0, number, bundle))
    assert [message for _, message in desk.said] == [closed(total("a"), 1), closed(carried, 2)]
    assert desk.totals.is_gated(plain("k")) and not desk.totals.is_gated(plain("x"))
    assert desk.totals.own("b") == carried and desk.totals.is_under_way(carried)


def test_what_is_carried_is_closed_also_where_it_has_come_in_another_way() -> None:
    """Its client went to another broker, which published it plainly; the others may not have it so."""
    desk = Desk(None, "left")
    carried = publication("b", 3, ("x",), Guarantee.FIFO)
    desk.seen.add(id_of(carried))
    assert desk.hear("left", Submit(carried)) == [("left", Lock(0, 1, carried)), ("left", closed(carried, 1))]
    desk.hear("left", closed(carried, 5))
    assert [id_of(bundle) for bundle, _ in desk.delivered] == [id_of(carried)]


def test_what_overtook_itself_is_known_by_what_is_under_way() -> None:
    desk = Desk("up", "up")
    desk.totals.submit(total("c", 4))
    assert desk.totals.is_overtaken(publication("c", 3, (), Guarantee.CAUSAL))
    assert not desk.totals.is_overtaken(publication("c", 5, (), Guarantee.CAUSAL))
    assert not desk.totals.is_overtaken(publication("c", 1, (), Guarantee.CAUSAL, incarnation=2)), "a new life"


def test_an_active_total_closes_its_keys_and_nothing_else() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(0, 1, total(keys=("k", "u#far"))))
    assert desk.totals.is_gated(plain("k"))
    assert desk.totals.is_gated(plain("t#k", topic="u")), "however the pair is written"
    assert desk.totals.is_gated(plain("far", topic="u"))
    assert not desk.totals.is_gated(plain("k", topic="u"))
    assert not desk.totals.is_gated(plain())
    desk.hear("up", closed(total(), 1))
    assert not desk.totals.is_gated(plain("k"))


def test_totals_without_keys_have_their_places_and_close_nothing() -> None:
    desk = Desk("up", "up")
    first, second, elsewhere = total("a", keys=()), total("b", keys=()), total("d", keys=(), topic="u")
    for number, bundle in enumerate((first, second, elsewhere)):
        desk.hear("up", Lock(0, number, bundle))
    assert [message for _, message in desk.said] == [closed(first, 1), closed(second, 2), closed(elsewhere, 3)]
    assert not desk.totals.is_gated(plain())
    assert not desk.totals.is_gated(plain("k"))


def test_a_broker_helps_to_close_even_what_it_will_not_show() -> None:
    """A newer life of the publisher was heard of first: `is_seen` does not count that."""
    desk = Desk("up", "up")
    assert desk.hear("up", Lock(0, 1, total())) == [("up", closed(total(), 1))]


def test_a_delivered_total_is_reported_until_it_has_left_the_log() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(0, 1, total()))
    assert desk.handover.report(["up"]) == (KnownLock(0, 1, total(), -1, told=1, heard=-1),)
    desk.hear("up", closed(total(), 2))
    assert desk.handover.report(["up"]) == (KnownLock(0, 1, total(stamp=3), 3),)
    desk.totals.forget(id_of(total()))
    desk.totals.forget(id_of(total()))
    assert desk.handover.report(["up"]) == ()
    assert desk.handover.last() == (Mark("c", "ordered", 1, 1),)
    assert desk.hear("up", Lock(0, 1, total())) == [], "it is still known to be ordered"
