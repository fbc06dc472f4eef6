"""Timers, the order of events, and when a run is over."""

from collections.abc import Sequence
from typing import Any

import pytest

from resprout.core.contract import (
    CancelTimer,
    Connect,
    Connected,
    Disconnect,
    Effect,
    Event,
    SetTimer,
    TimerFired,
    Transmit,
)
from resprout.core.errors import UsageError
from resprout.links.frames import Data, Goodbye
from tests.sim.puppets import Bell, Heartbeat, Pulse, Puppet, Village, Word

HOUR_US = 3_600_000_000


def test_a_timer_fires_at_its_time() -> None:
    village = Village()
    village.pull("a", SetTimer(Bell("x"), 70))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.rings("a") == [(70, Bell("x"))]


def test_a_timer_in_the_past_fires_at_once() -> None:
    village = Village()
    village.pull_at(50, "a", SetTimer(Bell("x"), 20))
    village.world.run(HOUR_US)
    assert village.rings("a") == [(50, Bell("x"))]


@pytest.mark.parametrize("moved_to", [30, 90])
def test_setting_an_equal_timer_again_moves_it(moved_to: int) -> None:
    village = Village()
    village.pull("a", SetTimer(Bell("x"), 60), SetTimer(Bell("x"), moved_to))
    village.world.run(HOUR_US)
    assert village.rings("a") == [(moved_to, Bell("x"))]


def test_a_timer_moved_forth_and_back_rings_once() -> None:
    village = Village()
    village.pull("a", *(SetTimer(Bell("x"), at) for at in (60, 90, 20, 60)))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.rings("a") == [(60, Bell("x"))]
    village.pull("a", SetTimer(Bell("x"), 200))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.rings("a") == [(60, Bell("x")), (200, Bell("x"))]


def test_a_cancelled_timer_does_not_ring_and_keeps_nobody_waiting() -> None:
    village = Village()
    village.pull("a", SetTimer(Bell("x"), 1_000_000), SetTimer(Bell("y"), 5), CancelTimer(Bell("x")))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.world.now_us == 5
    assert village.rings("a") == [(5, Bell("y"))]


def test_events_of_one_instant_keep_the_order_in_which_they_were_caused() -> None:
    village = Village("ab")
    for name in "bab":
        village.pull(name, SetTimer(Bell(f"{name}{village.world.calendar.pending}"), 40))
    village.world.run(HOUR_US)
    assert [bell for _, bell in village.rings("b")] == [Bell("b0"), Bell("b2")]
    assert village.rings("a") == [(40, Bell("a1"))]


def test_nothing_to_do_is_quiescent_at_once() -> None:
    village = Village()
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.world.now_us == 0


def test_the_time_limit_ends_a_run_that_still_has_work() -> None:
    village = Village()
    village.pull("a", SetTimer(Bell("x"), 1_000))
    assert village.world.run(999) == "timeout"
    assert village.world.now_us == 999
    assert village.rings("a") == []
    assert village.world.run(1_000) == "quiescent"


def test_heartbeats_do_not_keep_a_run_alive() -> None:
    village = Village()
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.pull("a", SetTimer(Heartbeat(), begin + 1_000))
    village.send("a", connection, "work")
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.world.now_us == begin + 10
    assert village.frames("b") == [(begin + 10, "work")]


def test_an_empty_frame_that_work_has_caused_is_waited_for() -> None:
    village = Village()
    connection = village.link("a", "b")
    village.send("a", connection, Data(1, 1, 1, ()))
    village.world.run(HOUR_US)
    assert len(village.frames("b")) == 1


@pytest.mark.parametrize("bandwidth_bps", [None, 8_000_000])
def test_signs_of_life_are_not_waited_for_whatever_has_caused_them(bandwidth_bps: int | None) -> None:
    village = Village("", size_of=lambda frame: 1)
    village.settle("a", None, 0, bandwidth_bps)
    village.settle("b", "a", 10)
    connection = village.link("a", "b")
    begin = village.world.now_us
    village.send("a", connection, Data(1, 1, 1, (Pulse(), Pulse())))
    assert village.world.run(HOUR_US) == "quiescent"
    assert village.world.now_us == begin
    village.send("a", connection, Data(1, 1, 1, (Pulse(), Word())))
    assert village.world.run(HOUR_US) == "quiescent"
    assert len(village.frames("b")) == 2


def test_greetings_that_housekeeping_causes_are_not_waited_for_and_what_follows_them_is() -> None:
    class Caller(Puppet):
        """Calls as a matter of housekeeping, greets, and says something the third time."""

        def step(self, event: Event, now_us: int) -> Sequence[Effect]:
            self.heard.append((now_us, event))
            if isinstance(event, TimerFired):
                return [Connect("a"), SetTimer(Heartbeat(), now_us + 100)]
            if isinstance(event, Connected):
                first: Any = Goodbye("never mind")
                if sum(isinstance(event, Connected) for _, event in self.heard) == 3:
                    first = Data(1, 1, 1, (Word(),))
                return [Transmit(event.connection, first), Disconnect(event.connection, "that was all")]
            return [SetTimer(Heartbeat(), now_us + 100)]

    village = Village("a", settle_us=300)
    village.distances.place("caller", "a", 10)
    village.faults.join("caller", lambda: village.world.add("caller", Caller))
    village.pull("a", SetTimer(Bell("x"), 50))
    caller = village.world.nodes["caller"].process
    assert caller is not None
    village.world.request(caller, None)
    assert village.world.run(HOUR_US) == "quiescent"
    # After the bell it is calm; the third call is made at 300, stands at 320, and what it brings arrives at 330.
    assert village.world.now_us == 330 + 300


def test_work_that_a_heartbeat_causes_is_waited_for_while_the_run_settles() -> None:
    class Watchful:
        """Sends its heartbeat, and with the third one something that matters."""

        def __init__(self, village: Village) -> None:
            self.village = village
            self.beats = 0

        def beat(self, process: object, timer: object) -> None:
            self.beats += 1
            self.village.pull("a", Transmit(connection, Data(1, 1, 1, (Word(),) if self.beats == 3 else ())))
            self.set()

        def set(self) -> None:
            world = self.village.world
            world.alarms.set(self.village.process("a"), "beat", world.now_us + 100, self.beat, background=True)

    village = Village(settle_us=300)
    connection = village.link("a", "b")
    begin = village.world.now_us
    watchful = Watchful(village)
    watchful.set()
    village.send("a", connection, "first")
    assert village.world.run(HOUR_US) == "quiescent"
    # The first frame arrives at 10, work follows at 300, arrives at 310, and 300 us later it is over.
    assert village.world.now_us == begin + 310 + 300
    assert [time - begin for time, _ in village.frames("b")] == [10, 110, 210, 310, 410, 510, 610]


def test_a_run_does_not_end_while_somebody_is_busy() -> None:
    busy = True
    village = Village(busy=lambda: busy)
    village.pull("a", SetTimer(Bell("x"), 5))
    assert village.world.run(100) == "timeout"
    busy = False
    assert village.world.run(200) == "quiescent"


def test_an_action_can_be_tied_to_the_number_of_an_event() -> None:
    village = Village()
    seen: list[tuple[int, int]] = []
    for at in range(1, 6):
        village.pull("a", SetTimer(Bell(str(at)), at * 10))
    for number in (4, 2):
        village.world.at_event(number, lambda: seen.append((village.world.events, village.world.now_us)))
    village.world.run(HOUR_US)
    assert seen == [(2, 20), (4, 40)]


def test_a_machine_that_raises_is_reported_with_the_moment() -> None:
    village = Village(seed=77)
    village.pull_at(30, "a", None)  # type: ignore[arg-type]
    with pytest.raises(KeyError) as caught:
        village.world.run(HOUR_US)
    assert caught.value.__notes__ == ["in the virtual world: seed 77, event 1, 30 us"]


def test_a_name_belongs_to_one_node() -> None:
    village = Village("a")
    with pytest.raises(UsageError, match="'a' already"):
        village.settle("a", None, 0)
