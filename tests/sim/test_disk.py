"""What a crash leaves on the disk, and what a record that is not durable holds back."""

import pytest

from resprout.core.contract import Answer, Deliver, Effect, Forget, Note, Persist, SetTimer, Transmit
from resprout.sim.disk import Disk
from resprout.sim.nodes import Process
from tests.sim.puppets import Bell, Village

HOUR_US = 3_600_000_000


class Listener:
    """Keeps what a node gives upward."""

    def __init__(self) -> None:
        self.given_effects: list[Effect] = []

    def began(self, process: Process) -> None:
        pass

    def given(self, process: Process, effect: Deliver | Answer) -> None:
        self.given_effects.append(effect)


def test_only_durable_records_survive_a_crash() -> None:
    disk = Disk()
    disk.write(b"one")
    disk.write(b"two")
    disk.settle()
    disk.crash()
    assert disk.records == (b"one",)


@pytest.mark.parametrize(("count", "kept"), [(5, (b"1", b"2", b"3")), (2, (b"2", b"3")), (0, ())])
def test_forgetting_keeps_the_latest_records(count: int, kept: tuple[bytes, ...]) -> None:
    disk = Disk()
    for record in (b"1", b"2", b"3"):
        disk.write(record)
        disk.settle()
    disk.forget_before_latest(count)
    assert disk.records == kept


def test_without_a_disk_latency_a_record_is_durable_at_once() -> None:
    village = Village()
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("a", Persist(b"r"), Transmit(connection, "after"))
    village.world.run(HOUR_US)
    assert village.frames("b") == [(begin + 10, "after")]
    assert village.world.nodes["a"].disk.records == (b"r",)


def test_what_follows_a_record_leaves_when_the_record_is_durable() -> None:
    notes: list[str] = []
    village = Village("b", disk_latency_us=300, on_note=lambda process, note: notes.append(note.kind))
    listener = Listener()
    village.settle("a", "b", 10, above=listener)
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("a", Transmit(connection, "before"), Persist(b"r"), Transmit(connection, "after"), Answer("done"))
    village.pull_at(begin + 100, "a", SetTimer(Bell("x"), begin + 150), Note("seen", {}), Transmit(connection, "later"))
    village.world.run(begin + 299)
    assert village.frames("b") == [(begin + 10, "before")]
    assert village.rings("a") == [(begin + 150, Bell("x"))]
    assert (notes, listener.given_effects) == (["seen"], [])
    assert village.world.run(HOUR_US) == "quiescent"
    assert [time - begin for time, _ in village.frames("b")] == [10, 310, 310]
    assert [frame for _, frame in village.frames("b")] == ["before", "after", "later"]
    assert listener.given_effects == [Answer("done")]


def test_each_record_holds_back_only_what_follows_it() -> None:
    village = Village(disk_latency_us=300)
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("a", Persist(b"1"), Transmit(connection, 1))
    village.pull_at(begin + 100, "a", Persist(b"2"), Transmit(connection, 2))
    village.world.run(HOUR_US)
    assert village.frames("b") == [(begin + 310, 1), (begin + 410, 2)]


def test_a_crash_before_a_record_is_durable_loses_it_and_everything_after_it() -> None:
    village = Village(disk_latency_us=300)
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("a", Persist(b"1"))
    village.pull_at(begin + 100, "a", Persist(b"2"), Transmit(connection, "after"))
    village.world.at(begin + 350, lambda *_: village.faults.crash("a"))
    village.world.at(begin + 360, lambda *_: village.faults.recover("a"))
    village.world.run(HOUR_US)
    assert village.recovered("a") == [b"1"]
    assert village.frames("b") == []
    assert village.world.nodes["a"].disk.records == (b"1",)


def test_forgetting_waits_for_the_record_that_replaces_what_is_forgotten() -> None:
    village = Village(disk_latency_us=300)
    village.pull("a", Persist(b"old"))
    village.world.run(HOUR_US)
    begin = village.world.now_us
    village.pull("a", Persist(b"summary"), Forget(1))
    village.world.run(begin + 200)
    assert village.world.nodes["a"].disk.records == (b"old",)
    village.world.run(HOUR_US)
    assert village.world.nodes["a"].disk.records == (b"summary",)


def test_the_disk_of_a_frozen_process_goes_on() -> None:
    village = Village(disk_latency_us=300)
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("a", Persist(b"r"), Transmit(connection, "after"))
    village.faults.freeze("a")
    village.world.at(begin + 1000, lambda *_: village.faults.unfreeze("a"))
    village.world.run(begin + 500)
    assert village.world.nodes["a"].disk.records == (b"r",)
    village.world.run(HOUR_US)
    assert village.frames("b") == [(begin + 1010, "after")]
