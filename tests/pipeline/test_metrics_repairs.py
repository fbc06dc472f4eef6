"""Repairs and phases, from notes by hand and from crashes in the simulator."""

from pathlib import Path

import pytest

from resprout.pipeline.metrics.observed import ObservedEvent
from resprout.pipeline.metrics.repairs import ObservedRepair, Trouble, repairs_in, trouble_in
from resprout.pipeline.results import RepairRow
from resprout.scenario.load import load_scenario
from tests.pipeline.test_metrics import deliver, measured, publish, row, simulated

GINGER = ["stack=ginger", "options={ total_degree = 3, timer_us = 2000000, max_hops = 3 }"]


def events(*texts: str) -> list[ObservedEvent]:
    """`time node kind dead...` each."""
    found = []
    for text in texts:
        time_us, node, kind, *detail = text.split()
        found.append(ObservedEvent(int(time_us), node, kind, " ".join(detail)))
    return found


def repairs(*texts: str) -> list[ObservedRepair]:
    return repairs_in(events(*texts))


def repaired(folder: Path, file: str, *settings: str) -> list[RepairRow]:
    found, _ = simulated(folder, load_scenario(file, ["workload.0.operations=40", *settings]))
    return found.repairs


def test_notes_about_the_same_dead_broker_are_one_repair() -> None:
    [repair] = repairs(
        "100 b1 crash", "130 b0 repair_begin b1", "140 b4 repair_begin b1", "150 b0 repair_end b1",
        "170 b4 repair_end b1",
    )  # fmt: skip
    assert (repair.node, list(repair.dead), repair.cause, repair.struck_us) == ("b0", ["b1"], "crash", 100)
    assert (repair.began_us, repair.placed_us, repair.ended_us) == (130, 150, 170)
    assert list(repair.members) == ["b0", "b4"]


def test_an_end_that_names_several_makes_one_repair_of_them() -> None:
    [repair] = repairs(
        "90 b2 crash", "100 b1 crash", "110 b0 repair_begin b1", "120 b0 repair_begin b2", "130 b5 repair_begin b1",
        "200 b0 repair_end b2 b1", "210 b5 repair_end b2 b1",
    )  # fmt: skip
    assert set(repair.dead) == {"b1", "b2"}
    assert (repair.began_us, repair.ended_us, repair.struck_us) == (110, 210, 90)


def test_a_broker_that_came_back_and_dies_again_is_repaired_again() -> None:
    first, second = repairs(
        "100 b1 crash", "110 b0 repair_begin b1", "150 b0 repair_end b1", "200 b1 recover", "210 b1 joined b0",
        "300 b1 freeze", "330 b0 repair_begin b1", "340 b0 repair_end b1",
    )  # fmt: skip
    assert (first.cause, first.began_us, first.ended_us) == ("crash", 110, 150)
    assert (second.cause, second.began_us, second.ended_us) == ("freeze", 330, 340)


def test_the_end_at_a_slow_member_counts_although_the_dead_is_back_by_then() -> None:
    [repair] = repairs(
        "100 b1 crash", "110 b0 repair_begin b1", "120 b4 repair_begin b1", "150 b0 repair_end b1",
        "160 b1 recover", "170 b4 repair_end b1",
    )  # fmt: skip
    assert repair.ended_us == 170


def test_places_given_up_on_purpose_are_told_from_faults() -> None:
    moved, left, unknown = repairs(
        "100 b4 moved b0", "110 b0 repair_begin b4", "120 b0 repair_end b4", "200 b6 leave", "210 b2 repair_begin b6",
        "220 b2 repair_end b6", "300 b1 repair_begin b0",
    )  # fmt: skip
    assert [repair.cause for repair in (moved, left, unknown)] == ["move", "leave", None]
    assert [repair.is_planned for repair in (moved, left, unknown)] == [True, True, False]
    assert unknown.ended_us is None


def test_trouble_lasts_from_the_first_fault_of_a_broker_to_the_last_forced_end() -> None:
    history = events(
        "50 c1 crash", "100 b1 crash", "130 b0 repair_begin b1", "150 b0 repair_end b1", "190 b4 repair_end b1",
        "200 b4 moved b0", "210 b0 repair_begin b4", "220 b0 repair_end b4",
    )  # fmt: skip
    assert trouble_in(history, repairs_in(history), frozenset({"c1"})) == Trouble(100, 190)


def test_there_is_no_trouble_without_a_forced_repair() -> None:
    history = events("100 b1 partition", "200 b4 moved b0", "210 b0 repair_begin b4", "220 b0 repair_end b4")
    assert trouble_in(history, repairs_in(history), frozenset()) is None


def test_a_repair_that_never_ends_has_no_after() -> None:
    history = events("100 b1 crash", "130 b0 repair_begin b1", "140 b0 repair_begin b2", "150 b0 repair_end b2")
    assert trouble_in(history, repairs_in(history), frozenset()) == Trouble(100, None)


def test_a_delivery_belongs_to_the_phase_in_which_it_was_published(tmp_path: Path) -> None:
    rows = [
        publish(99, 1),
        row(100, "b1", "crash"),
        publish(100, 2),
        row(130, "b0", "repair_begin", "b1"),
        row(150, "b0", "repair_end", "b1"),
        publish(150, 3),
        publish(151, 4),
        *(deliver(1_000 + seq, "s", seq) for seq in (1, 2, 3, 4)),
    ]
    found = measured(tmp_path / "t", rows)
    phases = {latency.phase: latency for latency in found.latency}
    assert {phase: latency.count for phase, latency in phases.items()} == {
        "all": 4,
        "before": 1,
        "during": 2,
        "after": 1,
    }
    assert phases["before"].max_us == 1_001 - 99
    assert phases["during"].median_us == 1_003 - 150
    assert phases["after"].max_us == 1_004 - 151
    assert found.runs[0].faults == 1


def test_the_repair_of_a_crash_takes_one_round_trip_at_its_coordinator(tmp_path: Path) -> None:
    repair, *moves = repaired(tmp_path / "t", "crash-b1")
    assert (repair.node, repair.dead, repair.cause, repair.rounds) == ("b0", ("b1",), "crash", None)
    assert repair.round_trip_us == 2 * (115_000 + 40_000)
    assert repair.placed_us is not None
    assert repair.placed_us - repair.began_us == repair.round_trip_us
    assert repair.duration_us == repair.round_trip_us * 3 // 2
    assert repair.detection_us == 345_000
    assert all(move.cause == "move" and move.round_trip_us is None for move in moves)


def test_rounds_are_counted_where_the_stack_asks_for_parents(tmp_path: Path) -> None:
    [repair] = repaired(tmp_path / "t", "crash-b1", *GINGER)
    assert (repair.dead, repair.rounds, repair.round_trip_us) == (("b1",), 7, 310_000)
    assert repair.node in ("b4", "b5")


def test_the_nearest_heir_is_the_centre_when_the_root_dies(tmp_path: Path) -> None:
    repair, *_ = repaired(tmp_path / "t", "crash-root")
    assert (repair.node, repair.round_trip_us) == ("b2", 2 * (37_000 + 240_000))


@pytest.mark.parametrize("settings", [[], GINGER])
def test_a_dead_child_of_the_dead_is_not_waited_for(tmp_path: Path, settings: list[str]) -> None:
    repair, *_ = repaired(tmp_path / "t", "crash-b1-b4", *settings)
    assert repair.round_trip_us == 2 * (115_000 + 25_000)


@pytest.mark.parametrize("stack", ["resprout", "ginger"])
def test_phases_of_a_crash_divide_all_deliveries(tmp_path: Path, stack: str) -> None:
    settings = ["workload.0.operations=60", *(GINGER if stack == "ginger" else [])]
    found, _ = simulated(tmp_path / "t", load_scenario("crash-b1", settings))
    for guarantee in ("eventual", "causal", "total"):
        counts = {row.phase: row.count for row in found.latency if row.guarantee == guarantee}
        assert counts.pop("all") == sum(counts.values())
        assert {"before", "during"} <= counts.keys()


def test_a_calm_run_has_no_phases(tmp_path: Path) -> None:
    found, _ = simulated(tmp_path / "t", load_scenario("bank", ["workload.0.operations=10"]))
    assert {row.phase for row in found.latency} == {"all"}
    assert found.repairs == []
