"""The pictures of a tree before and after a repair agree with what the brokers themselves say."""

from pathlib import Path

import pytest

from resprout.pipeline.metrics.observed import ObservedEvent
from resprout.pipeline.metrics.repairs import ObservedRepair, repairs_in
from resprout.pipeline.report.facts import Happening
from resprout.pipeline.report.trees import PICTURES_MAX, Parents, follow_tree, repair_pictures, repaired
from resprout.pipeline.results import RepairRow
from resprout.scenario.load import load_scenario
from resprout.sim.checking import broker_of
from resprout.sim.run import Run
from tests.pipeline.made_up import repair as made_up

FILES = Path(__file__).parents[2] / "src" / "resprout" / "scenario" / "files"
TREE: Parents = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b1", "b4": "b1", "b5": "b4"}


def row(one: ObservedRepair) -> RepairRow:
    took_us = None if one.ended_us is None else one.ended_us - one.began_us
    return made_up("e", "r", one.began_us, took_us, node=one.node, dead=tuple(one.dead))


@pytest.mark.parametrize(
    "name",
    ["crash-b1", "crash-b1-b4", "crash-b1-b2-b3", "crash-root", "crash-root-b1", "freeze-b1", "freeze-root", "recover"],
)
def test_the_tree_that_is_drawn_last_is_the_tree_of_the_brokers(name: str) -> None:
    scenario = load_scenario(FILES / f"{name}.toml")
    run = Run(scenario, None, ())
    rows = run.finish().rows
    events = [ObservedEvent(one.time_us, one.node, one.kind, one.detail or "") for one in rows if one.kind != "load"]
    joins = [Happening(one.time_us, one.node, one.kind, one.detail) for one in events if one.kind == "joined"]
    parents = {broker.name: broker.parent for broker in scenario.brokers}
    steps, tree = follow_tree(parents, joins, [row(one) for one in repairs_in(events)])
    assert steps, "something was repaired"
    brokers = {
        node.name: broker.life.view.parent
        for node in run.world.nodes.values()
        if node.process is not None and (broker := broker_of(node.process.machine)) is not None
    }
    assert tree == brokers


def test_children_of_the_dead_are_below_the_coordinator_afterwards() -> None:
    assert repaired(TREE, ["b1", "b4"], "b0") == {"b0": None, "b2": "b0", "b3": "b0", "b5": "b0"}
    assert repaired(TREE, ["b0"], "b2") == {"b1": "b2", "b2": None, "b3": "b1", "b4": "b1", "b5": "b4"}


def test_a_picture_crosses_out_the_dead_and_marks_new_links() -> None:
    (picture,) = repair_pictures(TREE, (), (made_up("e", "r", 5_000_000, 400_000),))
    assert picture.title == "b1 at 5.000 s: b0 repairs it in 400.0 ms"
    assert [one.name for one in picture.before.brokers if one.is_dead] == ["b1"]
    assert sum(one.look == "lost" for one in picture.before.links) == 3
    assert picture.after is not None and sum(one.look == "new" for one in picture.after.links) == 2
    assert [one.name for one in picture.after.brokers if one.leads] == ["b0"]
    assert "b3 below b0" in picture.after.label and "b1" not in picture.after.label
    places = [(one.x, one.y) for one in picture.before.brokers]
    assert len(set(places)) == len(TREE), "no two brokers are drawn at one place"


def test_there_are_pictures_of_the_first_repairs_only_and_none_of_other_stacks() -> None:
    tree: Parents = {"b0": None, **{f"x{number}": "b0" for number in range(PICTURES_MAX + 4)}}
    rows = [made_up("e", "r", number * 1_000_000, 400_000, dead=(f"x{number}",)) for number in range(PICTURES_MAX + 4)]
    assert len(repair_pictures(tree, (), rows)) == PICTURES_MAX
    assert repair_pictures({}, (), rows) == ()
