"""Waves in small trees, message by message."""

from collections import deque
from collections.abc import Callable, Sequence

import pytest

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.core.errors import PeerError
from resprout.overlay import waves as module
from resprout.overlay.messages import Configuration, Expelled, Life, Namesake, Registration, Tell, Told
from resprout.overlay.view import MembershipView
from resprout.overlay.waves import Waves
from tests.overlay.test_view import place


class Net:
    """The given links, each from parent to child, with a queue of messages that are delivered one by one."""

    def __init__(self, *links: str, faults: int = 2, claims: Sequence[Namesake] = ()) -> None:
        """`claims`: newcomers, each at the broker that it asks for a place (`Namesake.above`)."""
        self._claims = claims
        names = sorted({name for link in links for name in link})
        self.views = {name: MembershipView(name, 1, "", faults) for name in names}
        self.outcomes: dict[str, deque[Outcome]] = {name: deque() for name in names}
        self.waves = {
            name: Waves(self.views[name], self._poster(name), self.outcomes[name], claims=self._claims_at(name))
            for name in names
        }
        self.queue: list[tuple[str, str, ProtocolMessage]] = []
        for link in links:
            for name, peer in ((link[0], link[1]), (link[1], link[0])):
                self.views[name].neighbours[peer] = True
                self.views[name].sessions[peer] = 1
            self.views[link[1]].parent = link[0]
        for here in self.views.values():
            here.publish_place()

    def _poster(self, name: str) -> Callable[[str, ProtocolMessage], None]:
        return lambda peer, message: self.queue.append((name, peer, message))

    def _claims_at(self, broker: str) -> Callable[[str], list[Namesake]]:
        return lambda name: [claim for claim in self._claims if (claim.above, claim.name) == (broker, name)]

    @property
    def fenced(self) -> list[str]:
        return [name for name, outcomes in self.outcomes.items() if any(isinstance(x, Expelled) for x in outcomes)]

    def deliver(self, *mute: str) -> None:
        while self.queue:
            sender, receiver, message = self.queue.pop(0)
            if receiver not in mute:
                self.waves[receiver].handlers[type(message)](sender, message, 0)

    def knows(self, name: str) -> set[str]:
        return {here for here, view in self.views.items() if name in view.tombstones}


def test_a_place_is_recorded_within_its_hops_before_the_wave_is_done() -> None:
    net = Net("ab", "bc", "cd", "de")
    done: list[set[str]] = []
    new = place("x", "a", "a")

    def knowing() -> None:
        done.append({name for name, view in net.views.items() if "x" in view.places})

    net.waves["a"].start(new, 3, knowing)
    assert not done
    net.deliver()
    assert done == [{"b", "c", "d"}]


def test_a_wave_without_anybody_to_tell_is_done_at_once() -> None:
    net = Net("ab")
    done: list[int] = []
    net.waves["a"].start(None, 0, lambda: done.append(1))
    net.views["a"].neighbours["b"] = False
    net.waves["a"].start(None, 2, lambda: done.append(2))
    assert done == [1, 2]
    assert not net.queue


def test_a_registration_reaches_nobody_through_the_dead_and_fences_them() -> None:
    net = Net("ab", "bc", "bd", "de")
    done: list[int] = []
    net.waves["a"].start(Registration((Life("d", 1),), Configuration()), 4, lambda: done.append(1), toward=("b",))
    net.deliver()
    assert done == [1]
    assert net.knows("d") == {"b", "c"}
    net.waves["d"].handlers[Tell]("b", Tell(9, 1, (), Registration((Life("d", 1),), Configuration())), 0)
    assert net.fenced == ["d"]
    assert not net.queue, "who is dead does not answer"


def test_a_wave_does_not_wait_for_the_dead() -> None:
    net = Net("ab", "bc", "bd")
    done: list[int] = []
    net.waves["a"].start(None, 3, lambda: done.append(1))
    net.deliver("c")
    assert not done
    net.waves["b"].unwait("c")
    net.deliver()
    assert done == [1]
    net.waves["a"].unwait("b")
    assert done == [1]


def test_answers_count_only_from_those_who_were_asked() -> None:
    net = Net("ab", "ac")
    done: list[int] = []
    net.waves["a"].start(None, 1, lambda: done.append(1))
    for _ in range(3):
        net.waves["a"].handlers[Told]("b", Told(1), 0)
        net.waves["a"].handlers[Told]("z", Told(1), 0)
        net.waves["a"].handlers[Told]("c", Told(77), 0)
    assert not done
    net.waves["a"].handlers[Told]("c", Told(1), 0)
    assert done == [1]


def test_a_peer_can_neither_pile_up_waves_nor_send_them_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAVES_MAX", 10)
    net = Net("ab", "bc", "cd", "de", "ef", "fg", faults=1)
    net.waves["b"].handlers[Tell]("a", Tell(1, 1 << 60, (place("x", "a", "a"),)), 0)
    net.deliver()
    assert {name for name, here in net.views.items() if "x" in here.places} == {"b", "c", "d"}
    for number in range(10):
        net.waves["b"].handlers[Tell]("a", Tell(number, 3), 0)
    with pytest.raises(PeerError, match="waves"):
        net.waves["b"].handlers[Tell]("a", Tell(11, 3), 0)
    with pytest.raises(PeerError, match="places"):
        net.waves["c"].handlers[Tell]("b", Tell(1, 1, tuple([place(f"x{i}", "b", "b") for i in range(300)])), 0)


def test_both_sides_of_a_new_link_tell_each_other_what_stands_behind_them() -> None:
    net = Net("ab", "bc", "de", "ef")
    for one, other in (("c", "d"), ("d", "c")):
        net.views[one].neighbours[other] = True
        net.views[one].sessions[other] = 1
    net.views["d"].parent = "c"
    for here in net.views.values():
        here.learn(*[other.places[name] for name, other in net.views.items() if {here.name, name} <= set("abc")])
        here.learn(*[other.places[name] for name, other in net.views.items() if {here.name, name} <= set("def")])
    for name in "cd":
        net.waves[name].start(net.views[name].publish_place(), 4, lambda: None)
    net.deliver()
    net.views["d"].learn(*net.views["c"].places.values())  # as a repair brings it to a member
    net.waves["d"].exchange("c")
    net.deliver()
    for name in "af":
        known = {other for other, there in net.views[name].places.items() if there.version > 0}
        assert {"b", "c", "d", "e"} <= known
