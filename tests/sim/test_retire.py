"""Lives of nodes that end by themselves, and what follows them."""

from collections.abc import Sequence

from resprout.core.contract import Connect, Connected, Disconnected, Effect, Locate, Persist, Retire, SetTimer, Transmit
from resprout.sim.world import RESTART_US
from tests.sim.puppets import Bell, Puppet, Village

HOUR_US = 3_600_000_000


def test_a_life_that_retires_ends_at_once_and_the_next_one_begins() -> None:
    village = Village()
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull(
        "a",
        Persist(b"kept"),
        SetTimer(Bell("x"), begin + 100),
        Transmit(connection, "last words"),
        Retire("fenced"),
        Transmit(connection, "too late"),
        Persist(b"too late"),
    )
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.frames("b") == [(begin + 10, "last words")]
    assert village.losses("b") == [(begin + 10, connection, "fenced")]
    assert [life.incarnation for life in village.lives["a"]] == [1, 2]
    assert village.lives["a"][0].heard == []
    assert village.recovered("a") == [b"kept"]
    assert village.world.now_us == begin + RESTART_US
    assert village.told == []  # whoever retires says so itself


def test_what_comes_for_a_retired_life_does_not_reach_the_next() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.pull("a", Retire("fenced"))
    village.send("b", connection, "are you there?")
    village.world.run(HOUR_US)
    assert all(life.heard == [] for life in village.lives["a"])
    assert [reason for _, _, reason in village.losses("b")] == ["fenced"]


def test_a_retired_life_waits_for_what_it_has_persisted_and_takes_nothing_else_along() -> None:
    village = Village(disk_latency_us=50)
    village.pull("a", Persist(b"one"), Retire("fenced"), Persist(b"two"))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.world.now_us == 50 + RESTART_US
    assert village.recovered("a") == [b"one"]


def test_a_connection_that_a_retiring_life_is_making_is_lost_to_both() -> None:
    village = Village()
    village.pull("b", Connect("a"))
    village.pull_at(15, "b", Retire("fenced"))
    village.world.run(HOUR_US)
    assert [type(event) for _, event in village.puppet("a").heard] == [Connected, Disconnected]
    assert all(life.heard == [] for life in village.lives["b"])


def test_a_life_that_retires_during_its_start_is_followed_by_another() -> None:
    class Unlucky(Puppet):
        def start(self, now_us: int) -> Sequence[Effect]:
            return [Retire("not my day")] if self.incarnation < 3 else []

    village = Village()
    node = village.world.add("z", Unlucky)
    village.distances.place("z", "a", 10)
    node.disk.write(b"record")
    node.disk.settle()
    village.faults.join("z", lambda: node)
    assert village.world.run(HOUR_US) == "quiescent"
    assert node.incarnation == 3
    assert node.process is not None


def test_whoever_is_recovered_before_it_returns_by_itself_lives_once() -> None:
    village = Village()
    village.pull("a", Retire("fenced"))
    village.faults.recover("a")
    assert village.world.run(HOUR_US) == "quiescent"
    assert [life.incarnation for life in village.lives["a"]] == [1, 2]


def test_where_names_are_addresses_nobody_needs_to_be_located() -> None:
    village = Village()
    village.pull("a", Locate("b", "10.0.0.7:1000"), Connect("b"))
    village.world.run(HOUR_US)
    assert village.puppet("a").heard == [(20, Connected(1, "b"))]
