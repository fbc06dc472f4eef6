"""Links as slow as they may be, cuts inside a repair, clocks that move: classes of swarms, and how faults are read."""

import pytest

from resprout.core.errors import UsageError
from resprout.net.run.plan import check_runnable
from resprout.scenario.errors import ScenarioError
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind
from resprout.sim.classes.cut_repairs import cut_repairs
from resprout.sim.classes.moved_clocks import moved_clocks
from resprout.sim.classes.slow_links import slow_links
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
