"""What a broker tells people of a neighbour that it does not hear, in every stack with a tree."""

import pytest

from resprout.links.links import Links
from resprout.scenario.load import parse_scenario
from resprout.sim.run import Run
from resprout.stacks.status import TellsStatus

STACKS = ("resprout", "ginger", "flood", "cbcast", "causal-barriers", "delta", "locamu")
CUT_US, HEAL_US = 5_000_000, 6_500_000
"""Shorter than anybody's patience."""
CUT = """
seed = 1
time_limit = "60s"
stack = "{stack}"
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["t"]
[[fault]]
at = "5s"
kind = "cut"
nodes = ["b0", "b1"]
[[fault]]
at = "6500ms"
kind = "heal"
"""


@pytest.mark.parametrize("stack", STACKS)
def test_a_neighbour_behind_a_cut_is_silent_until_it_is_heard_again(stack: str) -> None:
    run = Run(parse_scenario(CUT.format(stack=stack)), None, ())
    told: list[tuple[str, ...]] = []

    def look(_: None, __: None) -> None:
        process = run.world.nodes["b0"].process
        assert process is not None and isinstance(process.machine, Links)
        broker = process.machine.machine
        assert isinstance(broker, TellsStatus)
        told.append(broker.status().silent)

    for time_us in (CUT_US - 1, HEAL_US - 1, HEAL_US + 2_000_000):
        run.world.at(time_us, look)
    assert run.finish().ended == "quiescent"
    assert told == [(), ("b1",), ()]
