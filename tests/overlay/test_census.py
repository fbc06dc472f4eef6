"""Who bears a name, asked of small trees message by message."""

import pytest

from resprout.core.errors import PeerError
from resprout.overlay.messages import Namesake, Seek, Sought
from resprout.overlay.waves import NAMES_MAX, CensusFindings
from tests.overlay.test_waves import Net


def ask(net: Net, name: str, *names: str, mute: tuple[str, ...] = ()) -> list[CensusFindings]:
    found: list[CensusFindings] = []
    net.waves[name].census.ask(names, found.append)
    net.deliver(*mute)
    return found


def test_a_broker_is_found_wherever_in_the_tree_it_lives() -> None:
    net = Net("ab", "bc", "cd", "de", "bf", faults=1)
    (findings,) = ask(net, "f", "e", "x")
    assert findings.namesakes == [Namesake("e", 1, "", "d", True)] and findings.complete


def test_newcomers_that_ask_elsewhere_are_found_as_well() -> None:
    claim = Namesake("x", 4, "h:1", "c", False)
    net = Net("ab", "bc", faults=1, claims=[claim])
    (findings,) = ask(net, "a", "x")
    assert findings.namesakes == [claim]


def test_silence_is_no_answer_and_a_link_in_repair_leaves_the_answer_open() -> None:
    net = Net("ab", "bc", "cd", faults=1)
    assert ask(net, "a", "x", mute=("c",)) == []
    found: list[CensusFindings] = []
    net.waves["a"].census.ask(("x",), found.append)
    net.deliver("c")
    net.waves["b"].unwait("c")
    net.deliver("c")
    assert [findings.complete for findings in found] == [False]
    net.views["b"].neighbours["c"] = False
    (findings,) = ask(net, "a", "x")
    assert not findings.complete


def test_what_is_remembered_of_dead_lives_is_told_with_the_highest_number() -> None:
    net = Net("ab", "bc", faults=1)
    net.views["b"].mark_dead("x", 5)
    net.views["c"].mark_dead("x", 7)
    net.views["c"].sessions["y"] = 3
    (findings,) = ask(net, "a", "x", "y")
    assert findings.latest == {"x": 7, "y": 2}, "a life that was met may be the one that asks"


def test_questions_and_answers_out_of_bounds_are_refused() -> None:
    net = Net("ab", faults=1)
    handlers = net.waves["a"].handlers
    with pytest.raises(PeerError, match="names sought at once"):
        handlers[Seek]("b", Seek(1, tuple(f"x{n}" for n in range(NAMES_MAX + 1))), 0)
    net.waves["a"].census.ask(("x",), lambda findings: None)
    with pytest.raises(PeerError, match="does not fit"):
        handlers[Sought]("b", Sought(1, (), (), True), 0)
    handlers[Sought]("b", Sought(9, (), (), True), 0)
