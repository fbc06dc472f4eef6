"""Links that are cut and heal, and partitions."""

from resprout.core.contract import Connect, Connected, Disconnected
from resprout.trace import kinds
from tests.sim.puppets import Village

HOUR_US = 3_600_000_000


def test_a_cut_breaks_the_connection_on_both_sides_and_loses_what_is_on_the_way() -> None:
    village = Village("abc")
    connection = village.link("a", "b")
    other = village.link("b", "c")
    begin = village.world.now_us
    village.send("a", connection, "lost")
    village.faults.cut("b", "a")
    village.send("b", other, "kept")
    village.world.run(HOUR_US)
    assert village.losses("a") == village.losses("b") == [(begin + 10, connection, "cut")]
    assert village.frames("b") == []
    assert [frame for _, frame in village.frames("c")] == ["kept"]
    assert village.told == [(kinds.CUT, "b", "a")]


def test_while_a_link_is_cut_nobody_connects_across_it() -> None:
    village = Village()
    village.faults.cut("a", "b")
    village.pull("a", Connect("b"))
    village.world.run(HOUR_US)
    village.faults.heal("b", "a")
    village.pull("a", Connect("b"))
    village.world.run(HOUR_US)
    assert village.puppet("a").heard == [(20, Disconnected(0, "b", "unreachable")), (40, Connected(1, "b"))]


def test_a_cut_during_the_handshake_fails_it() -> None:
    village = Village()
    village.pull("a", Connect("b"))
    village.world.at(15, lambda *_: village.faults.cut("a", "b"))
    village.world.run(HOUR_US)
    assert village.puppet("a").heard == [(25, Disconnected(0, "b", "cut"))]
    assert village.puppet("b").heard == [(10, Connected(1, None)), (25, Disconnected(1, None, "cut"))]


def test_a_partition_separates_two_sides_and_nothing_else() -> None:
    village = Village("abcd")
    inside, across, outside = village.link("a", "b"), village.link("b", "c"), village.link("c", "d")
    village.faults.partition(["a", "b"])
    village.send("a", inside, 1)
    village.send("c", across, 2)
    village.send("c", outside, 3)
    village.world.run(HOUR_US)
    assert [frame for _, frame in village.frames("b")] == [1]
    assert [frame for _, frame in village.frames("d")] == [3]
    assert [connection for _, connection, _ in village.losses("b")] == [across]
    assert [connection for _, connection, _ in village.losses("c")] == [across]


def test_who_joins_later_is_on_the_other_side_of_a_partition() -> None:
    village = Village("ab")
    village.faults.partition(["b"])
    village.settle("c", "b", 10)
    village.pull("c", Connect("b"), Connect("a"))
    village.world.run(HOUR_US)
    assert [type(event) for _, event in village.puppet("c").heard] == [Disconnected, Connected]


def test_healing_one_link_of_a_partition_leaves_the_others_cut() -> None:
    village = Village("abc")
    village.faults.partition(["b"])
    village.faults.heal("a", "b")
    village.pull("b", Connect("a"), Connect("c"))
    village.world.run(HOUR_US)
    assert [(type(event), event.peer) for _, event in village.puppet("b").heard] == [  # type: ignore[attr-defined]
        (Connected, "a"),
        (Disconnected, "c"),
    ]
    village.faults.heal_all()
    village.pull("b", Connect("c"))
    village.world.run(HOUR_US)
    assert isinstance(village.puppet("b").heard[-1][1], Connected)
