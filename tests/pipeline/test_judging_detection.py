"""What is found on arrays is what the judge in Python finds: cases of their own, without Spark."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from resprout.core.timing import DUE, EXPIRES, PUBLISHED
from resprout.pipeline.judging.runs import detect
from resprout.scenario.load import load_scenario
from resprout.sim.run import run_scenario
from tests.audit.model import good_trace
from tests.audit.spoiling import change
from tests.audit.trace_builder import TraceBuilder
from tests.pipeline.judging_cases import Case, assert_agrees, senseless_cases, simulated, write

ATTACKS = Path(__file__).parents[1] / "sim" / "attacks"


def agree(folder: Path, cases: Iterable[Case]) -> dict[str, set[str]]:
    return {case.name: assert_agrees(case, detect(write(folder, case), is_sealed=False)) for case in cases}


def test_simulated_runs_with_faults_break_nothing(tmp_path: Path) -> None:
    found = agree(tmp_path, simulated())
    assert len(found) == 5 and not set().union(*found.values())


def test_delivered_is_not_due_while_the_rest_of_a_bundle_waits_for_a_consumer(tmp_path: Path) -> None:
    scenario = load_scenario(ATTACKS / "delivered-waits-for-the-rest-of-its-bundle.toml")
    assert agree(tmp_path, [Case("bundle", run_scenario(scenario).rows)]) == {"bundle": set()}


def test_rows_that_make_no_sense_are_left_to_the_judge_in_python(tmp_path: Path) -> None:
    for case in senseless_cases():
        place = write(tmp_path, case)
        assert case.verdict is None, case.name
        assert detect(place, is_sealed=False).odd, case.name


def test_rows_are_put_in_order_of_time_wherever_they_stand(tmp_path: Path) -> None:
    rows = good_trace(4, 220)
    by_node = sorted(rows, key=lambda row: row.node)
    assert by_node != rows
    assert agree(tmp_path, [Case("order", by_node)]) == {"order": set()}


@pytest.mark.parametrize(("factor", "shift"), [(1, 1 << 40), (1 << 30, 0)])
def test_publications_are_found_by_any_numbers(tmp_path: Path, factor: int, shift: int) -> None:
    """Also by such as a table has no room for."""
    rows = [
        row if row.seq is None else change(row, seq=row.seq * factor + shift, incarnation=(row.incarnation or 0) - 9)
        for row in good_trace(6, 220)
    ]
    assert agree(tmp_path, [Case("numbers", rows)]) == {"numbers": set()}


def test_a_chain_through_a_topic_that_the_subscriber_does_not_receive_binds_it(tmp_path: Path) -> None:
    """In both ways: what came too late, and what never came."""
    for name, late in (("late", True), ("never", False)):
        t = TraceBuilder()
        t.subscribe("s", "a", "c")
        t.subscribe("c1", "a")
        t.subscribe("c2", "b")
        t.publish("c0:1", "a")
        t.deliver("c1", "c0:1")
        t.publish("c1:1", "b")
        t.deliver("c2", "c1:1")
        t.publish("c2:1", "c")
        t.deliver("s", "c2:1", *(("c0:1",) if late else ()))
        assert "causal" in agree(tmp_path, [Case(name, t.quiescent())])[name]


def test_totals_that_nobody_compared_make_no_barrier(tmp_path: Path) -> None:
    """Two subscribers with conditions saw different totals on one key, and the other publication on different sides."""
    t = TraceBuilder()
    t.subscribe("s1", "a", where="side = 'left' OR side = 'both'")
    t.subscribe("s2", "a", where="side = 'right' OR side = 'both'")
    t.publish("c0:1", "a", "total", keys="k", side="left")
    t.publish("c1:1", "a", "total", keys="k", side="right")
    t.publish("c2:1", "a", "fifo", keys="k", side="both")
    t.deliver("s1", "c0:1", "c2:1")
    t.deliver("s2", "c2:1", "c1:1")
    assert agree(tmp_path, [Case("apart", t.quiescent())]) == {"apart": set()}


def test_a_trace_whose_rows_were_exchanged_is_not_taken_for_the_run(tmp_path: Path) -> None:
    place = write(tmp_path, Case("one", good_trace(1, 220)))
    other = write(tmp_path, Case("other", good_trace(2, 220)))
    Path(place.parts[0].path).write_bytes(Path(other.parts[0].path).read_bytes())
    assert "not those of the run" in detect(place, is_sealed=False).odd


def test_messages_that_are_delayed_or_expire_are_left_to_the_judge_in_python(tmp_path: Path) -> None:
    for name, attributes, is_told in (
        ("plain", {"n": "1"}, False), ("due", {DUE: "5"}, False), ("told", {"n": "1"}, True),
        ("expires", {PUBLISHED: "3", EXPIRES: "9"}, False), ("kept", {EXPIRES: "9"}, False),
    ):  # fmt: skip
        t = TraceBuilder()
        t.subscribe("s", "a")
        t.publish("c:e1", "a", "eventual", **attributes)
        if is_told:
            t.add("s", "expired", **t.identity("c:e1"))
        t.deliver("s", "c:e1")
        case = Case(name, t.quiescent())
        detected = detect(write(tmp_path, case), is_sealed=False)
        assert ("delayed or expire" in detected.odd) == (name not in ("plain", "kept")), name
