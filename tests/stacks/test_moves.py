"""Planned moves: after a repair, the degree bound is restored, and new parents are near and share interest."""

import msgspec
import pytest

from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.stacks.resprout import ResproutBroker
from resprout.stacks.resprout.messages import Repaired
from tests.stacks.stage import Make, Played, check_sound, play

BRANCHES = ("b2", "b3", "b4")


def scene(
    brokers: dict[str, tuple[str | None, int]],
    wanted: dict[str, str],
    degree: int,
    fallen: str = "b1",
    operations: int = 20,
) -> Scenario:
    """`brokers` maps names to parents and latencies in ms, `wanted` brokers to what a client of theirs subscribes to.
    One broker crashes in the middle of the work."""
    lines = [
        'stack = "resprout"\nseed = 5\ntime_limit = "200s"',
        f"[options]\nfaults_tolerated = 1\nghost_us = 3_000_000\ntotal_degree = {degree}",
        "heartbeat_us = 200_000\nlease_us = 1_000_000",
    ]
    for name, (parent, latency_ms) in brokers.items():
        above = "" if parent is None else f'parent = "{parent}"\n'
        lines.append(f'[[broker]]\nname = "{name}"\n{above}latency = "{latency_ms}ms"')
    for name, topics in wanted.items():
        lines.append(f'[[client]]\nname = "c{name}"\nbroker = "{name}"\nlatency = "1ms"\nsubscribe = ["{topics}"]')
    lines.append(
        f'[[workload]]\nkind = "random"\ntopics = ["x/1", "x/2", "y/1"]\nkeys = 3\noperations = {operations}\n'
        'mix = { eventual = 0.2, fifo = 0.3, causal = 0.3, total = 0.2 }\ninterval = "50ms"\nstart = "1s"'
    )
    lines.append(f'[[fault]]\nat = "1500ms"\nkind = "crash"\nnodes = ["{fallen}"]')
    return parse_scenario("\n".join(lines))


def three_branches(near_ms: dict[str, int], sharing: str) -> Scenario:
    """b1 dies, and its children come under b0, which has one too many then: `leaf`, whose client wants x/#, and `stem`,
    which has a child. A client of one of the other branches wants the same as that of `leaf`."""
    brokers: dict[str, tuple[str | None, int]] = {"b0": (None, 0), "b1": ("b0", 10), "leaf": ("b1", 1)}
    brokers |= {"stem": ("b1", 100), "twig": ("stem", 1)}
    wanted = {"b0": "y/#", "leaf": "x/#", "twig": "y/#"}
    for name in BRANCHES:
        brokers[name] = ("b0", near_ms[name])
        brokers[name + "a"] = (name, 1)
        wanted[name + "a"] = "x/#" if name == sharing else "y/#"
    return scene(brokers, wanted, degree=4)


def moved(played: Played) -> list[str]:
    return [row.node for row in played.notes("moved")]


@pytest.mark.parametrize("sharing", BRANCHES)
def test_among_parents_that_are_equally_near_the_one_with_the_same_interest_is_chosen(sharing: str) -> None:
    played = play(three_branches(dict.fromkeys(BRANCHES, 10), sharing))
    check_sound(played)
    assert moved(played) == ["leaf"] and len(played.broker("b0").parts.links) == 4
    assert played.parents()["leaf"] == sharing


@pytest.mark.parametrize("near", ["b2", "b4"])
def test_a_much_nearer_parent_is_chosen_whatever_the_others_want(near: str) -> None:
    played = play(three_branches(dict.fromkeys(BRANCHES, 100) | {near: 10}, sharing="b3"))
    check_sound(played)
    assert moved(played) == ["leaf"] and len(played.broker("b0").parts.links) == 4
    assert played.parents()["leaf"] == near


def test_the_degree_bound_is_restored_after_a_repair_that_exceeded_it() -> None:
    brokers: dict[str, tuple[str | None, int]] = {"b0": (None, 0), "b1": ("b0", 10), "b2": ("b0", 20)}
    brokers |= {f"l{number}": ("b1", 2 + number) for number in range(4)}
    wanted = {"b0": "y/#"} | dict.fromkeys(("b2", "l0", "l3"), "x/#")
    played = play(scene(brokers, wanted, degree=5, operations=60), make=_with_degree(3))
    check_sound(played)
    assert len(moved(played)) >= 2
    degrees = {name: len(played.broker(name).parts.links) for name in played.parents()}
    assert len(degrees) == 6 and max(degrees.values()) <= 3, degrees


def test_of_several_leaves_the_one_whose_interest_is_at_home_elsewhere_moves() -> None:
    brokers: dict[str, tuple[str | None, int]] = {"b0": (None, 0), "b1": ("b0", 10), "b2": ("b0", 10)}
    brokers |= {"b2a": ("b2", 1), "la": ("b1", 1), "lb": ("b1", 1), "b3": ("b0", 10), "b3a": ("b3", 1)}
    wanted = {"b2a": "x/#", "b3a": "x/#", "la": "y/1", "lb": "x/2"}
    played = play(scene(brokers, wanted, degree=3))
    check_sound(played)
    assert moved(played) == ["lb"]


def test_a_leaf_that_wants_nothing_moves_before_one_that_does() -> None:
    brokers: dict[str, tuple[str | None, int]] = {"b0": (None, 0), "b1": ("b0", 10), "b2": ("b0", 10)}
    brokers |= {"b2a": ("b2", 1), "la": ("b1", 1), "lb": ("b1", 1), "b3": ("b0", 10), "b3a": ("b3", 1)}
    played = play(scene(brokers, {"b0": "y/#", "b2a": "x/#", "la": "x/#", "b3a": "x/#"}, degree=3))
    check_sound(played)
    assert moved(played) == ["lb"]


def _with_degree(degree: int) -> Make:
    """The tree forms with the degree of the scenario; afterwards another bound holds."""

    class Strict(ResproutBroker):
        def _repaired(self, outcome: Repaired) -> None:
            self.life.options = msgspec.structs.replace(self.life.options, total_degree=degree)
            super()._repaired(outcome)

    return Strict


def tree(parents: dict[str, str | None]) -> dict[str, tuple[str | None, int]]:
    return {name: (parent, 10) for name, parent in parents.items()}


def below(parents: dict[str, str | None], top: str) -> set[str]:
    """Everybody in the branch of this broker, itself included."""
    found = {top}
    while more := {name for name, parent in parents.items() if parent in found} - found:
        found |= more
    return found


SMALL_BRANCH: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b0", "b4": "b1", "b5": "b1"}
"""Each broker next to b0 or b1 has children, so no leaf of b0 can move when b1 is dead. Branch b4 is the smallest."""
SMALL_BRANCH |= {name + "a": name for name in ("b2", "b3", "b4", "b5")}
SMALL_BRANCH |= {name + "b": name for name in ("b2", "b3", "b5")}
SMALL_BRANCH |= {"b2a1": "b2a", "b2a2": "b2a", "b3a1": "b3a", "b5a1": "b5a"}


def test_where_no_child_is_a_leaf_the_smallest_branch_moves_leaf_by_leaf() -> None:
    wanted = {"b0": "y/#", "b4": "x/#", "b4a": "#", "b5a1": "x/#", "b2a": "x/1"}
    played = play(scene(tree(SMALL_BRANCH), wanted, degree=3, operations=200))
    check_sound(played)
    assert moved(played) == ["b4a", "b4"]
    parents = played.parents()
    degrees = {name: len(played.broker(name).parts.links) for name in parents}
    assert len(degrees) == len(SMALL_BRANCH) - 1 and max(degrees.values()) <= 3, degrees
    assert parents["b5"] == "b0" and below(parents, "b5") >= below(SMALL_BRANCH, "b5"), "other branches stay"
