"""Connections: handshake, latency, order, bandwidth, closing."""

import pytest

from resprout.core.contract import Connect, Connected, Disconnect, Disconnected, SetTimer, Transmit
from resprout.core.errors import UsageError
from resprout.sim.network import Distances
from tests.sim.puppets import Bell, Village

HOUR_US = 3_600_000_000


def test_a_connection_is_known_to_the_peer_after_one_latency_and_to_the_opener_after_two() -> None:
    village = Village(latency_us=25)
    village.pull("a", Connect("b"))
    village.world.run(HOUR_US)
    assert village.puppet("b").heard == [(25, Connected(1, None))]
    assert village.puppet("a").heard == [(50, Connected(1, "b"))]


def test_nobody_of_that_name_is_a_failed_attempt() -> None:
    village = Village()
    village.pull("a", Connect("z"), Connect("a"))
    village.world.run(HOUR_US)
    assert [event for _, event in village.puppet("a").heard] == [
        Disconnected(0, "z", "unknown peer"),
        Disconnected(0, "a", "unknown peer"),
    ]


def test_frames_take_exactly_the_latency_and_stay_in_order() -> None:
    village = Village(latency_us=25)
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.send("a", connection, 1, 2)
    village.pull_at(begin + 7, "a", Transmit(connection, 3))
    village.pull_at(begin + 9, "b", Transmit(connection, "back"))
    village.world.run(HOUR_US)
    assert village.frames("b") == [(begin + 25, 1), (begin + 25, 2), (begin + 32, 3)]
    assert village.frames("a") == [(begin + 34, "back")]


def test_a_frame_on_a_connection_that_does_not_exist_is_dropped() -> None:
    village = Village()
    village.send("a", 99, "lost")
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.puppet("b").heard == []


def test_distant_nodes_talk_along_the_tree() -> None:
    village = Village("a")
    village.settle("left", "a", 100)
    village.settle("right", "a", 10)
    village.settle("leaf", "right", 1)
    connection = village.link("leaf", "left")
    begin = village.world.now_us
    village.send("left", connection, "x")
    village.world.run(HOUR_US)
    assert village.frames("leaf") == [(begin + 111, "x")]


def test_two_trees_are_joined_at_their_roots() -> None:
    distances = Distances()
    distances.place("a", None, 200)
    distances.place("b", None, 300)
    distances.place("leaf", "b", 7)
    assert distances.between("a", "leaf") == distances.between("leaf", "a") == 507
    assert distances.between("a", "a") == 0
    assert distances.reach_us == 2 * 307


def test_in_a_flat_network_the_ways_of_two_nodes_add_up() -> None:
    distances = Distances()
    for name, latency_us in (("a", 5_000), ("b", 20_000), ("c", 0)):
        distances.place(name, None, latency_us)
    assert distances.between("a", "b") == 25_000
    assert distances.between("b", "c") == 20_000


def test_a_node_that_moves_is_as_far_as_its_new_place() -> None:
    distances = Distances()
    distances.place("a", None)
    distances.place("b", "a", 10)
    distances.place("c", "b", 10)
    assert distances.between("a", "c") == 20
    distances.place("c", "a", 3)
    assert distances.between("a", "c") == 3
    with pytest.raises(UsageError, match="negative"):
        distances.place("d", "a", -1)


def test_the_links_of_a_node_share_its_bandwidth() -> None:
    village = Village("", size_of=len)
    village.settle("hub", None, 0, bandwidth_bps=8_000_000)  # one byte per microsecond
    village.settle("b", "hub", 10)
    village.settle("c", "hub", 20)
    to_b, to_c = village.link("b", "hub"), village.link("c", "hub")
    begin = village.world.now_us
    village.pull("hub", Transmit(to_b, b"x" * 100), Transmit(to_c, b"y" * 50), Transmit(to_b, b"z"))
    village.pull_at(begin + 400, "hub", Transmit(to_c, b"y" * 30))
    village.send("b", to_b, b"v" * 1000)
    village.world.run(HOUR_US)
    assert [time - begin for time, _ in village.frames("b")] == [100 + 10, 151 + 10]
    assert [time - begin for time, _ in village.frames("c")] == [150 + 20, 430 + 20]
    assert [time - begin for time, _ in village.frames("hub")] == [10]


def test_part_of_a_microsecond_of_bandwidth_counts_as_a_whole_one() -> None:
    village = Village("", size_of=len)
    village.settle("a", None, 0, bandwidth_bps=3_000_000_000)
    village.settle("b", "a", 10)
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.send("a", connection, b"x")
    village.world.run(HOUR_US)
    assert [time - begin for time, _ in village.frames("b")] == [11]


def test_a_bandwidth_needs_sizes() -> None:
    village = Village("a")
    village.settle("b", "a", 10, bandwidth_bps=1000)
    connection = village.link("a", "b")
    village.pull_at(village.world.now_us, "b", Transmit(connection, b"x"))
    with pytest.raises(UsageError, match="has no codec"):
        village.world.run(HOUR_US)


def test_closing_lets_what_was_sent_arrive_first() -> None:
    village = Village("", size_of=len)
    village.settle("a", None, 0, bandwidth_bps=8_000_000)
    village.settle("b", "a", 10)
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("a", Transmit(connection, b"x" * 100), Disconnect(connection, "enough"), Transmit(connection, b"y"))
    village.world.run(HOUR_US)
    assert village.frames("b") == [(begin + 110, b"x" * 100)]
    assert village.losses("b") == [(begin + 110, connection, "enough")]
    assert village.puppet("a").heard == []


def test_what_comes_to_a_closed_end_is_dropped() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.send("b", connection, "crossing")
    village.pull("a", Disconnect(connection, "enough"))
    village.world.run(HOUR_US)
    assert village.puppet("a").heard == []


def test_both_may_close_at_once() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.pull("a", Disconnect(connection, "enough"))
    village.pull("b", Disconnect(connection, "me too"))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.puppet("a").heard == village.puppet("b").heard == []


def test_two_nodes_may_have_several_connections() -> None:
    village = Village()
    one, other = village.link("a", "b"), village.link("b", "a")
    village.send("a", other, "on the second")
    village.send("b", one, "on the first")
    village.pull("a", SetTimer(Bell("x"), 0))
    village.world.run(HOUR_US)
    assert one != other
    assert [frame for _, frame in village.frames("b")] == ["on the second"]
    assert [frame for _, frame in village.frames("a")] == ["on the first"]
