"""What totals refuse of peers, and how much of clients they let be under way at once."""

from typing import Any

import pytest

from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import STAMP_MAX
from resprout.order.messages import (
    KnownLock,
    Lock,
    Submit,
    check_locks,
    id_of,
)
from resprout.order.totals import pending
from resprout.order.totals.handover import MemberLocks, Piece, accept_welcome
from resprout.order.totals.totals import TotalsState
from tests.order.test_totals import Desk, closed, plain, total


@pytest.mark.parametrize(
    ("peer", "message", "why"),
    [
        ("up", Submit(total()), "not to a child"),
        ("left", Submit(plain("k", guarantee=Guarantee.EVENTUAL)), "no place in any order"),
        ("up", Lock(0, 1, plain("k", guarantee=Guarantee.EVENTUAL)), "no place in any order"),
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
    assert desk.totals.pending == desk.clock.now == desk.position.epoch == 0
    assert desk.said == []


def test_a_closed_that_nobody_asked_for_is_ignored() -> None:
    desk = Desk("up", "up")
    assert desk.hear("up", closed(total(), 3)) == []
    assert desk.hear("stranger", closed(total(), 3)) == []


def test_the_highest_stamp_allowed_still_leads_to_a_delivery_with_a_stamp_that_clocks_reach() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(0, 1, total()))
    desk.hear("up", closed(total(), STAMP_MAX))
    assert desk.delivered[0][0].stamp == 3


def test_peers_that_bring_far_more_than_is_for_all_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "FULL_TOTALS", 2)
    desk = Desk("up", "up", "left")
    for number in range(2 * pending.HARD_FACTOR):
        desk.hear("left", Submit(total(f"c{number}")))
    with pytest.raises(PeerError, match="33 undelivered totals"):
        desk.hear("left", Submit(total("one more")))
    assert desk.hear("left", Submit(total("c5"))) == [("up", Submit(total("c5")))], "a known one needs no room"
    desk.hear("up", Lock(0, 1, total("c5")))
    with pytest.raises(PeerError, match="33 undelivered totals"):
        desk.handover.take_locks([KnownLock(0, 2, total("one more"))], (), (), ())
    with pytest.raises(PeerError, match="33 undelivered totals"):
        accept_welcome(desk.totals, [KnownLock(0, 2, total("one more"), active=True)], (), "up")
    assert desk.totals.state is TotalsState.RUNNING
    assert desk.totals.pending == 2 * pending.HARD_FACTOR


def submit_while_there_is_room(desk: Desk, publisher: str) -> int:
    count = 0
    while desk.totals.has_room_for(publisher):
        count += 1
        desk.totals.submit(total(publisher, count))
    return count


def test_a_client_with_many_under_way_waits_with_more_and_others_do_not() -> None:
    desk = Desk(None, "left")
    assert submit_while_there_is_room(desk, "c") == pending.OWN_TOTALS
    assert desk.totals.has_room_for("d")
    desk.hear("left", closed(total("c", 1), 1))
    assert desk.totals.has_room_for("c")


def test_a_client_waits_sooner_with_what_has_no_place_yet_because_others_cannot_know_of_it() -> None:
    desk = Desk("up", "up")
    assert submit_while_there_is_room(desk, "c") == pending.UNORDERED_TOTALS
    desk.hear("up", Lock(0, 1, total("c", 1)))
    assert desk.totals.has_room_for("c")


def test_clients_share_what_is_for_all_and_each_may_have_one_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "FULL_TOTALS", 12)
    desk = Desk(None, "left")
    counts = [submit_while_there_is_room(desk, name) for name in "abcdefg"]
    assert counts == [12, 6, 4, 3, 2, 2, 1], "whoever comes later has no more than its share"
    assert not desk.totals.has_room_for("a"), "and whoever has more waits until it has less"
    assert desk.totals.has_room_for("h")


def test_bytes_are_shared_like_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "FULL_BYTES", 6 * total().cost)
    desk = Desk(None, "left")
    assert [submit_while_there_is_room(desk, name) for name in "ab"] == [6, 3]
    monkeypatch.setattr(pending, "OWN_BYTES", total().cost)
    assert submit_while_there_is_room(desk, "c") == 1


@pytest.mark.parametrize(
    ("lock", "why"),
    [
        (KnownLock(0, 1, total(stamp=4), 5), "delivered at 5"),
        (KnownLock(0, 1, total(stamp=STAMP_MAX + 2), STAMP_MAX + 2), "beyond"),
        (KnownLock(0, 1, total(), told=STAMP_MAX + 1), "beyond"),
        (KnownLock(0, 1, plain("k", guarantee=Guarantee.EVENTUAL)), "no place in any order"),
        (KnownLock(1 << 30, 1, total(), active=False), "impossible place"),
    ],
)
def test_locks_that_cannot_be_are_refused_wherever_they_come_from(lock: Any, why: str) -> None:
    with pytest.raises(PeerError, match=why):
        check_locks([lock])


def test_after_a_repair_what_waits_is_submitted_again_before_clients_may_submit_more() -> None:
    desk = Desk("up", "up")
    desk.hear("up", Lock(0, 1, total("a")))
    desk.totals.submit(total("c", 1))
    may_go_on: list[bool] = []
    desk.on_delivered = lambda bundle, tseq: may_go_on.append(desk.totals.state is TotalsState.RUNNING)
    desk.position.neighbours = {"new": True}
    desk.position.parent = "new"
    desk.handover.take_locks([KnownLock(0, 1, total("a"))], (), ["up"], ["new"])
    desk.totals.locks.undelivered[id_of(total("a"))].heard["new"] = 3
    desk.handover.resume()
    assert may_go_on == [False], "a client that goes on now would have its newer one ordered first"
    assert desk.said[-1] == ("new", Submit(total("c", 1))) and desk.totals.state is TotalsState.RUNNING


def test_floors_grow_with_places_when_a_coordinator_closes_for_the_dead() -> None:
    desk = Desk("up", "up", "dead")
    bundles = [total(name) for name in "abc"]
    for number, bundle in enumerate(bundles[:2]):
        desk.hear("up", Lock(0, number, bundle))
    desk.hear("dead", closed(bundles[0], 7))
    reports = {"m": MemberLocks((KnownLock(0, 2, bundles[2], told=1),), ())}
    merged = desk.handover.merge(reports, [Piece(("dead",), ("m",))])
    desk.position.neighbours = {"up": True, "m": True}
    desk.handover.take_locks(merged.locks, merged.last, ["dead"], ["m"])
    desk.handover.lead(merged)
    desk.handover.resume()
    floors = [record.floor for record in desk.totals.locks.in_line()]
    assert floors == sorted(set(floors)) and floors[0] == 7, (
        "what was said of the first is a fact; the others are above"
    )
