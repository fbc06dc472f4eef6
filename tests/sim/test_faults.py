"""Each kind of fault, with puppets."""

import pytest

from resprout.core.contract import Connect, Connected, Disconnected, Persist, Retire, SetTimer, Transmit
from resprout.sim.nodes import Node
from resprout.trace import kinds
from tests.sim.puppets import Bell, Village

HOUR_US = 3_600_000_000


# -- crash and recover -----------------------------------------------------------------------------


def test_peers_of_a_crashed_process_lose_their_connections_after_one_latency() -> None:
    village = Village("abc")
    to_a, to_c = village.link("b", "a"), village.link("b", "c")
    begin = village.world.now_us
    village.faults.crash("b")
    village.world.run(HOUR_US)
    assert village.losses("a") == [(begin + 10, to_a, "reset")]
    assert village.losses("c") == [(begin + 10, to_c, "reset")]
    assert village.told == [(kinds.CRASH, "b", None)]


def test_of_what_a_crashed_process_sent_a_prefix_arrives_drawn_for_each_connection() -> None:
    outcomes = set()
    for seed in range(60):
        village = Village("abc", seed=seed)
        to_a, to_c = village.link("b", "a"), village.link("b", "c")
        village.send("b", to_a, 0, 1, 2)
        village.send("b", to_c, 0, 1, 2)
        village.faults.crash("b")
        village.world.run(HOUR_US)
        arrived = tuple([frame for _, frame in village.frames(name)] for name in "ac")
        assert all(frames == [0, 1, 2][: len(frames)] for frames in arrived)
        outcomes.add(tuple(map(len, arrived)))
    assert {length for length, _ in outcomes} == {0, 1, 2, 3}
    assert any(one != other for one, other in outcomes)


def test_what_arrived_before_the_crash_stays_arrived() -> None:
    village = Village("ab")
    connection = village.link("a", "b")
    village.send("a", connection, "early")
    village.world.run(village.world.now_us + 10)
    village.faults.crash("a")
    village.world.run(HOUR_US)
    assert [frame for _, frame in village.frames("b")] == ["early"]


def test_a_silent_host_tells_nobody() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.faults.crash("b", host=True)
    village.send("a", connection, "into the void")
    village.world.run(HOUR_US)
    assert village.puppet("a").heard == []


def test_connecting_to_a_dead_process_is_refused_and_to_a_silent_host_times_out() -> None:
    village = Village("abc")
    village.faults.crash("b")
    village.faults.crash("c", host=True)
    village.pull("a", Connect("b"), Connect("c"))
    village.world.run(HOUR_US)
    assert village.puppet("a").heard == [
        (20, Disconnected(0, "b", "refused", refused=True)),
        (1_000_000, Disconnected(0, "c", "timed out")),
    ]


def test_a_host_that_is_back_resets_connections_it_does_not_know() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.faults.crash("b", host=True)
    village.faults.recover("b")
    begin = village.world.now_us
    village.send("a", connection, "are you there?")
    village.world.run(HOUR_US)
    assert village.losses("a") == [(begin + 20, connection, "reset")]
    assert village.puppet("b").heard == []


def test_recovery_is_a_new_machine_with_the_next_incarnation_and_the_records() -> None:
    village = Village()
    village.pull("a", Persist(b"one"), Persist(b"two"), SetTimer(Bell("x"), 100))
    draw = village.puppet("a").rng.random()
    village.faults.crash("a")
    village.faults.recover("a")
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.recovered("a") == [b"one", b"two"]
    assert [life.incarnation for life in village.lives["a"]] == [1, 2]
    assert village.lives["a"][0].heard == []  # no timer of the first life rings
    assert village.rings("a") == []
    assert village.puppet("a").rng.random() != draw
    assert village.told == [(kinds.CRASH, "a", None), (kinds.RECOVER, "a", None)]


def test_recovery_without_the_disk_finds_nothing() -> None:
    village = Village()
    village.pull("a", Persist(b"one"))
    village.faults.crash("a")
    village.faults.recover("a", disk=False)
    assert village.recovered("a") == []
    village.faults.crash("a")
    village.faults.recover("a")
    assert village.recovered("a") == []


def test_a_handshake_with_a_process_that_dies_meanwhile_fails() -> None:
    village = Village()
    village.pull("a", Connect("b"))
    village.world.at(15, lambda *_: village.faults.crash("b"))
    village.world.run(HOUR_US)
    assert village.puppet("a").heard == [(20, Connected(1, "b")), (25, Disconnected(1, "b", "reset"))]


def test_a_node_that_dies_while_it_connects_leaves_nothing_behind() -> None:
    village = Village()
    village.pull("a", Connect("b"))
    village.faults.crash("a")
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.puppet("b").heard == []


def test_a_crash_at_the_number_of_an_event_happens_there() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.send("a", connection, *range(10))
    village.world.at_event(village.world.events + 4, lambda: village.faults.crash("b"))
    village.world.run(HOUR_US)
    assert [frame for _, frame in village.frames("b")] == [0, 1, 2, 3]


# -- freeze and unfreeze ---------------------------------------------------------------------------


def test_a_frozen_node_handles_everything_in_order_when_it_wakes() -> None:
    village = Village("abc")
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("b", SetTimer(Bell("x"), begin + 15))
    village.faults.freeze("b")
    village.send("a", connection, 1)
    village.pull_at(begin + 10, "a", Transmit(connection, 2))
    village.pull_at(begin + 11, "c", Connect("b"))
    village.world.at(begin + 50, lambda *_: village.faults.unfreeze("b"))
    assert village.world.run(HOUR_US) == "quiescent"
    heard = village.puppet("b").heard
    assert [time for time, _ in heard] == [begin + 50] * 4
    assert [type(event).__name__ for _, event in heard] == ["Arrived", "TimerFired", "Arrived", "Connected"]
    assert village.frames("b") == [(begin + 50, 1), (begin + 50, 2)]
    assert [kind for kind, _, _ in village.told] == [kinds.FREEZE, kinds.UNFREEZE]


def test_what_a_frozen_node_has_sent_still_arrives() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.send("a", connection, "last words")
    village.faults.freeze("a")
    village.world.run(HOUR_US)
    assert [frame for _, frame in village.frames("b")] == ["last words"]


def test_nobody_waits_for_a_node_that_stays_frozen() -> None:
    village = Village()
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("b", SetTimer(Bell("x"), begin + 5))
    village.faults.freeze("b")
    village.send("a", connection, 1)
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.world.now_us == begin + 10


def test_frames_that_reached_a_frozen_node_come_before_the_loss_of_their_connection() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.faults.freeze("b")
    village.send("a", connection, 1)
    village.world.run(HOUR_US)
    village.faults.crash("a")
    village.world.run(HOUR_US)
    village.faults.unfreeze("b")
    assert [type(event).__name__ for _, event in village.puppet("b").heard] == ["Arrived", "Disconnected"]


def test_a_timer_that_came_due_in_the_freeze_can_still_be_moved_by_what_came_before_it() -> None:
    village = Village()
    village.pull("b", SetTimer(Bell("x"), 100))
    village.world.at(50, lambda *_: village.faults.freeze("b"))
    village.pull_at(60, "b", SetTimer(Bell("x"), 900))
    village.world.at(200, lambda *_: village.faults.unfreeze("b"))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.rings("b") == [(900, Bell("x"))]


def test_a_crash_takes_what_waited_in_a_frozen_node() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.faults.freeze("b")
    village.send("a", connection, 1)
    village.world.run(HOUR_US)
    village.faults.crash("b")
    village.faults.recover("b")
    village.world.run(HOUR_US)
    assert all(life.heard == [] for life in village.lives["b"])
    assert [reason for _, _, reason in village.losses("a")] == ["reset"]


# -- join, leave, and faults without an object -----------------------------------------------------


def test_a_node_that_joins_starts_then() -> None:
    village = Village("a")
    village.distances.place("new", "a", 5)
    node = village.world.add("new", lambda life, rng: village.make("new", life, rng))
    village.pull("a", Connect("new"))
    village.world.run(HOUR_US)
    village.faults.join("new", lambda: node)
    village.faults.join("new", lambda: node)
    village.pull("a", Connect("new"))
    village.world.run(HOUR_US)
    assert [type(event) for _, event in village.puppet("a").heard] == [Disconnected, Connected]
    assert village.told == [(kinds.JOIN, "new", None), (kinds.NOTE, "new", "join ignored: it runs already")]


def test_one_that_joins_elsewhere_while_it_still_leaves_is_where_it_was_until_it_has_gone() -> None:
    """Seed 4900800: the way to its new place was shorter, and what it said overtook what it had said before."""
    village = Village()
    seats: list[int] = []
    node = village.world.nodes["a"]
    village.faults.leave("a", [], retires=True)

    def seat() -> Node:
        seats.append(village.world.now_us)
        return node

    village.faults.join("a", seat)
    assert seats == [] and village.world.run(HOUR_US) == "quiescent" and seats == []
    village.pull("a", Retire("it has drained", again=False))
    gone_us = village.world.now_us
    assert village.world.run(HOUR_US) == "quiescent"
    assert seats == [gone_us] and [life.incarnation for life in village.lives["a"]] == [1, 2]


def test_a_node_that_leaves_is_asked_to() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.faults.leave("a", [Transmit(connection, "farewell")])
    village.world.run(HOUR_US)
    assert [frame for _, frame in village.frames("b")] == ["farewell"]
    assert [reason for _, _, reason in village.losses("b")] == ["it leaves"]
    assert village.world.nodes["a"].process is None
    assert village.told == [(kinds.LEAVE, "a", None)]


def test_a_node_that_retires_is_only_asked_to_leave_and_goes_when_it_wants_to() -> None:
    village = Village()
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.faults.leave("a", [], retires=True)
    village.pull_at(begin + 500, "a", Transmit(connection, "farewell"), Retire("nothing more to do", again=False))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.frames("b") == [(begin + 510, "farewell")]
    assert village.losses("b") == [(begin + 510, connection, "nothing more to do")]
    assert village.world.nodes["a"].process is None
    assert len(village.lives["a"]) == 1
    assert village.told == [(kinds.LEAVE, "a", None)]


def test_a_frozen_node_does_not_leave() -> None:
    village = Village()
    village.faults.freeze("a")
    village.faults.leave("a", [])
    assert village.told[1:] == [(kinds.NOTE, "a", "leave ignored: it is frozen")]


@pytest.mark.parametrize("kind", ["crash", "recover", "freeze", "unfreeze"])
def test_a_fault_of_an_unknown_node_is_told_and_changes_nothing(kind: str) -> None:
    village = Village()
    getattr(village.faults, kind)("z")
    assert village.told == [(kinds.NOTE, "z", f"{kind} ignored: there is no such node")]


def test_a_fault_that_has_nothing_to_do_is_told_and_changes_nothing() -> None:
    village = Village()
    village.faults.unfreeze("a")
    village.faults.recover("a")
    village.faults.freeze("a")
    village.faults.freeze("a")
    village.faults.crash("b")
    village.faults.crash("b")
    village.faults.leave("b", [])
    assert [detail for kind, _, detail in village.told if kind == kinds.NOTE] == [
        "unfreeze ignored: it is not frozen",
        "recover ignored: it runs already",
        "freeze ignored: it is frozen already",
        "crash ignored: it does not run",
        "leave ignored: it does not run",
    ]


# -- clocks ----------------------------------------------------------------------------------------


def test_the_clock_of_a_suspended_machine_stands_still_and_its_timers_are_late_by_what_it_slept() -> None:
    village = Village("ab")
    village.pull("a", SetTimer(Bell("soon"), 70), SetTimer(Bell("late"), 500))
    village.world.run(50)
    village.faults.suspend("a")
    village.world.run(250)
    village.faults.resume("a")
    village.world.run(HOUR_US)
    assert village.rings("a") == [(70, Bell("soon")), (500, Bell("late"))], "by its own clock"
    assert village.world.nodes["a"].ahead_us == -200
    assert [kind for kind, _, _ in village.told] == [kinds.FREEZE, kinds.UNFREEZE]


def test_when_a_clock_leaps_the_timers_that_are_due_by_then_ring_at_once() -> None:
    village = Village("ab")
    village.pull("a", SetTimer(Bell("soon"), 70), SetTimer(Bell("late"), 500))
    village.world.run(50)
    village.faults.leap("a", 300)
    village.world.run(HOUR_US)
    assert village.rings("a") == [(350, Bell("soon")), (500, Bell("late"))], "by its own clock"
    assert village.told == [(kinds.NOTE, "a", "the clock leaps forward by 0.0003 s")]
