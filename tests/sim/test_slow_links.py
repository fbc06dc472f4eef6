"""Links as slow as they may be, cuts inside a repair, clocks that move: classes of swarms, and how faults are read."""

import pytest

from resprout.core.errors import UsageError
from resprout.net.run.schedule import check_runnable
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind
from resprout.scenario.source import ScenarioError
from resprout.sim.classes.links import slow_links
from resprout.sim.classes.machines import moved_clocks
from resprout.sim.classes.tree import cut_repairs
from resprout.sim.run import run_scenario
from resprout.sim.swarm import try_seed
from tests.soak import cases

TREE = '[[broker]]\nname = "b0"\n[[broker]]\nname = "b1"\nparent = "b0"\n[[client]]\nname = "c"\nbroker = "b1"\n'


@pytest.mark.parametrize("drawn", ["slow-links", "cut-repairs", "moved-clocks"])
def test_by_chance(drawn: str) -> None:
    for seed in range(1, 1 + cases(2, 20)):
        outcome = try_seed(seed, drawn)
        assert not outcome.failed, outcome.report


@pytest.mark.parametrize("draw", [slow_links, cut_repairs, moved_clocks])
def test_equal_seeds_draw_equal_trials(draw) -> None:  # type: ignore[no-untyped-def]
    assert draw(5) == draw(5)
    assert draw(5) != draw(6)


def test_no_host_falls_silent_before_the_voters_of_a_young_tree_are_decided() -> None:
    """b2 had joined 2.1 s before on links of 0.4 and 0.7 s one way. b1 had agreed to a configuration with b2, but b0
    fell silent before it could decide it. One of the two voters of the last decided configuration is no majority."""
    outcome = try_seed(132170200, "slow-links")
    assert not outcome.failed, outcome.report


def fault(text: str) -> str:
    return f"{TREE}[[fault]]\n{text}\n"


def test_clocks_are_moved_in_the_simulator_only() -> None:
    scenario = parse_scenario(fault('at = "1s"\nkind = "leap"\nnodes = ["b1"]\nby = "10s"'))
    assert (scenario.faults[0].kind, scenario.faults[0].by_us) == (FaultKind.LEAP, 10_000_000)
    with pytest.raises(UsageError, match="b1: a leap moves a clock"):
        check_runnable(scenario)
    with pytest.raises(ScenarioError, match="by"):
        parse_scenario(fault('at = "1s"\nkind = "leap"\nnodes = ["b1"]'))
    with pytest.raises(ScenarioError, match="takes no 'by'"):
        parse_scenario(fault('at = "1s"\nkind = "crash"\nnodes = ["b1"]\nby = "1s"'))
    with pytest.raises(ScenarioError, match="only a broker can suspend"):
        parse_scenario(fault('at = "1s"\nkind = "suspend"\nnodes = ["c"]'))
    with pytest.raises(ScenarioError, match="cannot resume: it is up"):
        parse_scenario(fault('at = "1s"\nkind = "resume"\nnodes = ["b1"]'))


def test_a_broker_that_is_too_far_from_its_parent_does_not_join_and_says_which_lease_it_needs() -> None:
    """Both declared each other dead for ever, and nobody was told why."""
    far = '[[broker]]\nname = "b0"\n[[broker]]\nname = "b1"\nparent = "b0"\nlatency = "3s"\n'
    rows = run_scenario(parse_scenario(f'time_limit = "40s"\n{far}')).rows
    [told] = [row for row in rows if row.kind == "slow_link"]
    assert told.node == "b1" and told.detail is not None
    assert told.detail.startswith("a round trip to b0 takes 6.0 s, and lease_us is 3 s: b1 does not join there")
    assert not any(row.kind == "joined" for row in rows)
    result = run_scenario(parse_scenario(f'time_limit = "100s"\n[options]\nlease_us = 12_000_000\n{far}'))
    assert result.ended == "quiescent" and [row.node for row in result.rows if row.kind == "joined"] == ["b1"]


def test_a_newcomer_that_asks_a_broker_too_far_away_is_not_buried_by_it() -> None:
    """Brokers that started together asked others when their parents had no place after 20 s. One turned down the place
    that a far broker gave it. That broker buried it, so the nearer ones fenced that life."""
    chain = '[[broker]]\nname = "b0"\n' + "".join(
        f'[[broker]]\nname = "b{number}"\nparent = "b{number - 1}"\nlatency = "750ms"\n' for number in range(1, 6)
    )
    rows = run_scenario(parse_scenario(f'time_limit = "120s"\n{chain}')).rows
    assert {row.node for row in rows if row.kind == "joined"} == {"b1", "b2", "b3", "b4", "b5"}
    assert any(row.kind == "slow_link" for row in rows), "no broker was asked that is too far away"
    assert not [row for row in rows if row.kind in ("fenced", "repair_end")]
