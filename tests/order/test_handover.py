"""The hand-over of totals in a repair, word by word: what the dead had said, and to whom."""

from collections.abc import Sequence

from resprout.order.messages import KnownLock, Lock, id_of
from resprout.order.totals.handover import MemberLocks, MergedLocks, Piece
from tests.order.test_totals import Desk, closed, total


def reported(told: int = -1, heard: int = -1) -> MemberLocks:
    """By a member that knows the lock and has not delivered the total."""
    return MemberLocks((KnownLock(0, 1, total(), told=told, heard=heard),), ())


def repair(desk: Desk, reports: dict[str, MemberLocks], pieces: Sequence[Piece]) -> MergedLocks:
    """The coordinator's part, up to where closing goes on."""
    merged = desk.handover.merge(reports, pieces)
    for piece in pieces:
        for name in piece.dead:
            desk.position.neighbours.pop(name, None)
        desk.position.neighbours.update(dict.fromkeys(piece.members, True))
    dead = [name for piece in pieces for name in piece.dead]
    desk.handover.take_locks(merged.locks, merged.last, dead, list(reports))
    desk.handover.lead(merged)
    desk.said.clear()
    desk.handover.resume()
    return merged


def test_the_coordinator_closes_no_lower_than_the_dead_had_said() -> None:
    desk = Desk(None, "dead")
    desk.totals.submit(total())
    repair(desk, {"m": reported(told=3, heard=50)}, [Piece(("dead",), ("m",))])
    assert desk.said == [("m", closed(total(), 50))], "m may have acted on that"
    assert [bundle.stamp for bundle, _ in desk.delivered] == [51]


def test_a_dead_piece_that_told_nobody_is_closed_above_everything_that_it_may_have_published() -> None:
    desk = Desk(None, "dead")
    desk.totals.submit(total())
    desk.clock.raise_to(70)  # of all members, and of the pool
    repair(desk, {"m": reported(told=3)}, [Piece(("dead",), ("m",))])
    ((_, said),) = desk.said
    assert said.stamp > 70  # type: ignore[attr-defined]


def test_what_one_piece_had_said_says_nothing_of_another() -> None:
    desk = Desk(None, "dead1", "dead2")
    desk.totals.submit(total())
    pieces = [Piece(("dead1",), ("m1",)), Piece(("dead2",), ("m2",))]
    merged = desk.handover.merge({"m1": reported(heard=5), "m2": reported()}, pieces)
    assert merged.said[id_of(total())].is_unclosed and merged.said[id_of(total())].highest == 5
    together = desk.handover.merge(
        {"m1": reported(heard=5), "m2": reported()}, [Piece(("dead1", "dead2"), ("m1", "m2"))]
    )
    assert not together.said[id_of(total())].is_unclosed, "of one piece, what a part of it said is enough"


def test_what_was_said_on_the_dead_link_stands_for_the_new_one() -> None:
    desk = Desk("dead", "dead", "child")
    desk.hear("dead", Lock(0, 1, total()))
    desk.hear("dead", closed(total(), 8))
    desk.position.parent = "new"
    del desk.position.neighbours["dead"]
    desk.position.neighbours["new"] = True
    desk.handover.take_locks((KnownLock(0, 1, total()),), (), ("dead",), ("new",))
    desk.handover.follow("new")
    desk.handover.resume()
    assert desk.delivered == []
    desk.said.clear()
    desk.hear("child", closed(total(), 2))
    assert [bundle.stamp for bundle, _ in desk.delivered] == [9], "new need not say it again"


def test_a_total_that_anybody_delivered_is_delivered_at_its_stamp_and_closed_for_the_others() -> None:
    desk = Desk("dead", "dead", "child")
    desk.hear("dead", Lock(0, 1, total()))
    desk.position.parent = "new"
    del desk.position.neighbours["dead"]
    desk.position.neighbours["new"] = True
    desk.handover.take_locks((KnownLock(0, 1, total(stamp=20), 20),), (), ("dead",), ("new",))
    desk.said.clear()
    desk.handover.deliver_at(total(stamp=20))
    assert [bundle.stamp for bundle, _ in desk.delivered] == [20]
    assert desk.said == [("child", closed(total(), 19))]
