"""One broker's totals, word by word: what it says, when it delivers, what it refuses."""

from typing import Any

import pytest

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.marks import Mark
from resprout.order import backlog
from resprout.order.clock import STAMP_MAX, Clock
from resprout.order.total_handover import Handover
from resprout.order.total_joining import accept_welcome
from resprout.order.total_messages import Closed, GrantedLock, Lock, LockReport, Submit, WelcomeLock, check_locks, id_of
from resprout.order.totals import Totals
from tests.order.totals_net import Stand, publication


class Desk:
    """`Totals` with everything around it written down."""

    def __init__(self, parent: str | None = None, *neighbours: str) -> None:
        self.seat = Stand(parent, dict.fromkeys(neighbours, True))
        self.clock = Clock()
        self.said: list[tuple[str, ProtocolMessage]] = []
        self.delivered: list[tuple[Bundle, int]] = []
        self.seen: set[Any] = set()
        self.totals = Totals(
            self.seat,
            self.clock,
            lambda peer, message: self.said.append((peer, message)),
            lambda bundle, tseq: self.delivered.append((bundle, tseq)),
            lambda bundle: id_of(bundle) in self.seen,
        )
        self.handover = Handover(self.totals)

    def hear(self, peer: str, message: ProtocolMessage) -> list[tuple[str, ProtocolMessage]]:
        """What the broker says in answer."""
        before = len(self.said)
        self.totals.handlers[type(message)](peer, message)
        return self.said[before:]


def total(publisher: str = "c", first: int = 1, keys: tuple[str, ...] = ("k",), **extra: Any) -> Bundle:
    return publication(publisher, first, keys, Guarantee.TOTAL, **extra)


def plain(*keys: str, topic: str = "t", guarantee: Guarantee = Guarantee.CAUSAL) -> Bundle:
    return publication("other", 1, keys, guarantee, topic=topic)


def closed(bundle: Bundle, stamp: int) -> Closed:
    return Closed(*id_of(bundle), stamp)


# -- submit and lock ---------------------------------------------------------------------------------------------------


def test_a_broker_alone_delivers_at_once_one_above_its_clock() -> None:
    desk = Desk()
    desk.clock.now = 7
    desk.totals.submit(total())
    assert desk.delivered == [(total(stamp=8), 1)]
    assert desk.clock.now == 8
    assert desk.totals.pending == 0


def test_a_long_queue_of_totals_is_no_deep_recursion() -> None:
    desk = Desk()
    waiting = [total(first=n) for n in range(5_000, 0, -1)]

    def deliver(bundle: Bundle, tseq: int) -> None:
        desk.delivered.append((bundle, tseq))
        if waiting:
            desk.totals.submit(waiting.pop())

    desk.totals._deliver = deliver
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
    desk.seat.neighbours["up"] = False
    desk.totals.submit(total())
    assert desk.said == []
    desk.seat.neighbours = {"new": True}
    desk.seat.parent = "new"
    desk.totals.resubmit()
    assert desk.said == [("new", Submit(total()))]


def test_a_new_root_numbers_from_one_under_its_own_epoch() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(3, 9, total("a")))
    desk.hear("up", closed(total("a"), 0))
    desk.totals.submit(total())
    desk.seat.parent, desk.seat.neighbours = None, {}
    assert desk.seat.epoch == 3
    with pytest.raises(AssertionError, match="given again"):
        desk.totals.become_root(3)
    desk.totals.become_root(4)
    desk.totals.resubmit()
    assert desk.delivered[-1] == (total(stamp=2), 4 << 40 | 1)


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
    desk.seen.add(id_of(total("d")))
    assert desk.hear("up", Lock(0, 2, total("d"))) == [], "delivered long ago"


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
    assert desk.hear("up", Lock(0, 1, total())) == [("up", closed(total(), 4))]
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
    desk.seat.neighbours["left"] = False
    assert desk.hear("up", closed(total(), 1)) == [], "left would be told, but cannot be"
    assert desk.hear("left", closed(total(), 1)) == [], "too late: the link is in repair"
    assert desk.delivered == []
    assert desk.totals.waiting()[0].neighbours == ("left",)


def test_what_a_dead_broker_said_before_it_died_is_a_fact() -> None:
    desk = Desk("up", "up", "left")
    desk.hear("up", Lock(0, 1, total()))
    assert desk.hear("left", closed(total(), 6)) == [("up", closed(total(), 6))]
    desk.seat.neighbours["left"] = False
    desk.hear("up", closed(total(), 1))
    assert desk.delivered == [(total(stamp=7), 1)]


def test_totals_with_a_common_key_are_active_one_after_the_other() -> None:
    desk = Desk("up", "up")
    first, second, apart = total("a", keys=("x", "y")), total("b", keys=("y", "z")), total("d", keys=("q",))
    for number, bundle in enumerate((first, second, apart)):
        desk.hear("up", Lock(0, number, bundle))
    assert [message for _, message in desk.said] == [closed(first, 0), closed(apart, 0)]
    assert [w.behind for w in desk.totals.waiting()] == [(), (first,), ()]
    assert desk.totals.is_gated(plain("y")), "the first one holds it"
    assert not desk.totals.is_gated(plain("z")), "the second one is not active yet"
    assert desk.hear("up", closed(first, 3)) == [("up", closed(second, 4))], "above the first one's stamp"
    assert desk.totals.is_gated(plain("z"))


def test_publications_wait_for_an_active_total_on_their_keys_and_for_nothing_else() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(0, 1, total(keys=("k", "u#far"))))
    for guarantee in Guarantee:
        assert desk.totals.is_gated(plain("k", guarantee=guarantee))
    assert desk.totals.is_gated(plain("t#k", topic="u")), "however the pair is written"
    assert desk.totals.is_gated(plain("far", topic="u"))
    assert not desk.totals.is_gated(plain("k", topic="u"))
    assert not desk.totals.is_gated(plain())
    desk.hear("up", closed(total(), 1))
    assert not desk.totals.is_gated(plain("k"))


def test_totals_without_keys_follow_one_order_per_topic_and_hold_nothing_back() -> None:
    desk = Desk("up", "up")
    first, second, elsewhere = total("a", keys=()), total("b", keys=()), total("d", keys=(), topic="u")
    for number, bundle in enumerate((first, second, elsewhere)):
        desk.hear("up", Lock(0, number, bundle))
    assert [message for _, message in desk.said] == [closed(first, 0), closed(elsewhere, 0)]
    assert not desk.totals.is_gated(plain())
    assert not desk.totals.is_gated(plain("k"))


def test_a_broker_helps_to_close_even_what_it_will_not_show() -> None:
    """A newer life of the publisher was heard of first: `is_seen` does not count that."""
    desk = Desk("up", "up")
    assert desk.hear("up", Lock(0, 1, total())) == [("up", closed(total(), 0))]


def test_a_delivered_total_is_reported_until_it_has_left_the_log() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(0, 1, total()))
    assert desk.handover.report(["up"]) == (LockReport(0, 1, total(), -1, told=0, heard=-1),)
    desk.hear("up", closed(total(), 2))
    assert desk.handover.report(["up"]) == (LockReport(0, 1, total(stamp=3), 3),)
    desk.totals.forget(id_of(total()))
    desk.totals.forget(id_of(total()))
    assert desk.handover.report(["up"]) == ()
    assert desk.handover.last() == (Mark("c", "ordered", 1, 1),)
    assert desk.hear("up", Lock(0, 1, total())) == [], "it is still known to be ordered"


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "message", "why"),
    [
        ("up", Submit(total()), "not to a child"),
        ("left", Submit(plain("k")), "not a total"),
        ("up", Lock(0, 1, plain("k")), "not a total"),
        ("up", Lock(1 << 22, 1, total()), "impossible place"),
        ("up", Lock(1, 1 << 40, total()), "impossible place"),
        ("left", Submit(total(stamp=STAMP_MAX + 1)), "beyond"),
        ("up", Lock(0, 1, total(stamp=STAMP_MAX + 1)), "beyond"),
        ("up", closed(total(), STAMP_MAX + 1), "beyond"),
    ],
)
def test_what_no_honest_peer_says_is_refused_and_changes_nothing(peer: str, message: Any, why: str) -> None:
    desk = Desk("up", "up", "left")
    with pytest.raises(PeerError, match=why):
        desk.hear(peer, message)
    assert desk.totals.pending == desk.clock.now == desk.seat.epoch == 0
    assert desk.said == []


def test_a_closed_that_nobody_asked_for_is_ignored() -> None:
    desk = Desk("up", "up")
    assert desk.hear("up", closed(total(), 3)) == []
    assert desk.hear("stranger", closed(total(), 3)) == []


def test_the_highest_stamp_allowed_still_leads_to_a_delivery() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(0, 1, total()))
    desk.hear("up", closed(total(), STAMP_MAX))
    assert desk.delivered[0][0].stamp == STAMP_MAX + 1


def test_a_full_backlog_first_holds_local_clients_back_and_then_refuses_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "FULL_TOTALS", 2)
    desk = Desk("up", "up", "left")
    desk.totals.submit(total("c0"))
    full_at_one = not desk.totals.has_room_for("d")
    for number in range(1, 2 * backlog.HARD_FACTOR):
        desk.hear("left", Submit(total(f"c{number}")))
    assert (full_at_one, not desk.totals.has_room_for("d")) == (False, True)
    with pytest.raises(PeerError, match="33 undelivered totals"):
        desk.hear("left", Submit(total("one more")))
    assert desk.hear("left", Submit(total("c5"))) == [("up", Submit(total("c5")))], "a known one needs no room"
    desk.hear("up", Lock(0, 1, total("c5")))
    with pytest.raises(PeerError, match="33 undelivered totals"):
        desk.handover.take_locks([GrantedLock(0, 2, total("one more"))], (), (), ())
    with pytest.raises(PeerError, match="33 undelivered totals"):
        accept_welcome(desk.totals, [WelcomeLock(0, 2, total("one more"), True)], (), "up")
    assert not desk.totals.held
    assert desk.totals.pending == 2 * backlog.HARD_FACTOR


def test_a_client_with_many_totals_under_way_waits_with_more_and_others_do_not() -> None:
    desk = Desk("up", "up")
    for first in range(1, backlog.OWN_TOTALS + 1):
        assert desk.totals.has_room_for("c")
        desk.totals.submit(total("c", first, (f"k{first}",)))
    assert not desk.totals.has_room_for("c") and desk.totals.has_room_for("d")


def test_totals_of_one_publisher_are_active_together_and_delivered_in_order() -> None:
    desk = Desk("up", "up")
    blocker = total("b", keys=("x",))
    first, second = total("c", 1, ("x",)), total("c", 2, ("y",))
    for number, bundle in enumerate((blocker, first, second)):
        desk.hear("up", Lock(0, number, bundle))
    assert [message for _, message in desk.said] == [closed(blocker, 0)], "the second may not close before the first"
    assert not desk.totals.is_gated(plain("y"))
    desk.hear("up", closed(second, 9))
    assert desk.hear("up", closed(blocker, 3)) == [("up", closed(first, 9)), ("up", closed(second, 9))]
    assert desk.totals.is_gated(plain("y")) and len(desk.delivered) == 1, "closed all around, and behind the first"
    assert [w.behind for w in desk.totals.waiting()] == [(), (first,)]
    desk.hear("up", closed(first, 5))
    assert [bundle for bundle, _ in desk.delivered[1:]] == [first.stamped(10), second.stamped(10)]


def test_heavy_totals_fill_the_backlog_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "FULL_BYTES", total().cost)
    desk = Desk("up", "up")
    desk.hear("up", Lock(0, 1, total()))
    assert not desk.totals.has_room_for("d")
    desk.hear("up", closed(total(), 1))
    assert desk.totals.has_room_for("d")


@pytest.mark.parametrize(
    ("lock", "why"),
    [
        (LockReport(0, 1, total(stamp=4), 5), "delivered at 5"),
        (LockReport(0, 1, total(stamp=STAMP_MAX + 2), STAMP_MAX + 2), "beyond"),
        (LockReport(0, 1, total(), told=STAMP_MAX + 1), "beyond"),
        (GrantedLock(0, 1, plain("k")), "not a total"),
        (WelcomeLock(1 << 30, 1, total(), False), "impossible place"),
    ],
)
def test_locks_that_cannot_be_are_refused_wherever_they_come_from(lock: Any, why: str) -> None:
    with pytest.raises(PeerError, match=why):
        check_locks([lock])
