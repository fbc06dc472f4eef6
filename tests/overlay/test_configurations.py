"""Several candidates for the root at once: their messages in any order, some lost, some giving up halfway."""

import random
from collections import deque
from typing import Any

import pytest

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import (
    Configuration,
    CouncilOptions,
    Decided,
    Enrol,
    Enrolled,
    Expelled,
    Life,
    Place,
    Voter,
)
from resprout.overlay.registry import Heir, Registry
from resprout.overlay.view import MembershipView
from resprout.overlay.waves import Waves
from tests.network import Streams
from tests.soak import cases

OPTIONS = CouncilOptions(heartbeat_us=1000, lease_us=5000)


class Voters:
    """All are children of a root that died; every candidate believes that some of the others died as well."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names = [f"s{number}" for number in range(self.chance.choice((5, 8, 10)))]
        self.streams: Streams[ProtocolMessage] = Streams()
        self.views = {name: self._view(name) for name in self.names[1:]}
        self.outcomes: dict[str, deque[Outcome]] = {name: deque() for name in self.names[1:]}
        self.registries = {name: self._registry(name) for name in self.names[1:]}
        self.decided: list[tuple[Configuration, frozenset[Life]]] = []
        """With everybody who had agreed to it, as far as whoever says so has heard."""
        self._proposed: dict[tuple[str, int], Configuration] = {}
        self._agreed: dict[Configuration, set[Life]] = {}

    def _view(self, name: str) -> MembershipView:
        root = self.names[0]
        here = MembershipView(name, 1, "", 2)
        here.parent = root
        here.neighbours[root] = False
        here.sessions.update(dict.fromkeys(self.names, 1))
        here.publish_place()
        here.learn(Place(root, 1, 1, None, tuple(self.names[1:]), ""))
        here.learn(*[Place(other, 1, 1, root, (root,), "") for other in self.names[1:]])
        here.follow_decided(Configuration(2, tuple([Voter(other, 1, "") for other in self.names[:5]])))
        return here

    @property
    def fenced(self) -> set[str]:
        return {name for name, outcomes in self.outcomes.items() if any(isinstance(x, Expelled) for x in outcomes)}

    def _registry(self, name: str) -> Registry:
        def post(peer: str, message: ProtocolMessage) -> None:
            self._note(name, message)
            lost = isinstance(message, Decided) and self.chance.random() < 0.8
            if peer in self.views and not lost:
                self.streams.put(name, peer, message)

        view, outcomes = self.views[name], self.outcomes[name]
        return Registry(view, LeaseDetector(view, OPTIONS), Waves(view, post, outcomes), post, outcomes)

    def run(self, steps: int) -> None:
        for step in range(steps):
            name = self.chance.choice(self.names[1:])
            waiting = self.streams.busy()
            if waiting and self.chance.random() < 0.85:
                self._deliver(*self.chance.choice(waiting), now_us=step * 100)
            elif name not in self.fenced:
                self._stir(name, step * 100)

    def _deliver(self, sender: str, receiver: str, now_us: int) -> None:
        message: Any = self.streams.take(sender, receiver)
        if receiver not in self.fenced and self.chance.random() < 0.95:
            if isinstance(message, Enrolled) and message.yes:
                self._agreed[self._proposed[receiver, message.number]].add(Life(sender, message.incarnation))
            self.registries[receiver].handlers[type(message)](sender, message, now_us)

    def _stir(self, name: str, now_us: int) -> None:
        registry = self.registries[name]
        if registry.wanted is None or self.chance.random() < 0.3:
            others = [other for other in self.names[1:] if other != name]
            dead = frozenset((self.names[0], *self.chance.sample(others, self.chance.choice((0, 1, 2, 3)))))
            for other in dead:
                self.views[name].mark_dead(other, 1)
            registry.register(dead, now_us)
        elif self.chance.random() < 0.1:
            registry.drop()
        else:
            registry.tick(now_us)

    def _note(self, name: str, message: ProtocolMessage) -> None:
        """What somebody says: that it asks for consent, and that it has enough of it."""
        if isinstance(message, Enrol):
            self._proposed[name, message.number] = message.new
            self._agreed.setdefault(message.new, {Life(name, 1)})
        elif isinstance(message, Decided):
            new = message.configuration
            if all(new != known for known, _ in self.decided):
                self.decided.append((new, frozenset(self._agreed[new])))


def test_decided_configurations_form_one_line_in_which_each_had_the_consent_of_the_one_before() -> None:
    lengths, tried = [], cases(100, 300)
    for seed in range(tried):
        voters = Voters(seed)
        voters.run(400)
        first = next(iter(voters.views.values()))
        line = sorted({new.version: (new, yes) for new, yes in voters.decided}.items())
        assert len(line) == len({new for new, _ in voters.decided}), "two configurations of one version"
        before = Configuration(2, tuple([Voter(name, 1, "") for name in voters.names[:5]]))
        for _, (new, yes) in line:
            assert first.is_majority(before, yes) or first.is_half_with_root(before, yes)
            assert first.is_majority(new, yes) or first.is_half_with_root(new, yes)
            before = new
        lengths.append(len(line))
    assert sum(length > 1 for length in lengths) > tried // 15, "too few runs in which anything could have gone wrong"


def test_a_configuration_that_somebody_agreed_to_must_consent_even_if_the_candidate_never_heard_of_it() -> None:
    voters = Voters(1)
    name, registry, here = "s1", voters.registries["s1"], voters.views["s1"]
    here.mark_dead("s0", 1)
    here.follow(Configuration(3, (Voter("s2", 1, ""), Voter("s1", 1, ""))))
    assert not registry.register(frozenset(("s0",)), 0)
    rival = Configuration(3, (Voter("s3", 1, ""), Voter("s4", 1, ""), Voter("s0", 1, "")))
    number = next(message.number for message in voters.streams.between(name, "s2") if isinstance(message, Enrol))

    def answer(peer: str, *undecided: Configuration) -> bool:
        registry.handlers[Enrolled](peer, Enrolled(number, 1, True, (), here.decided, undecided), 0)
        return registry.register(frozenset(("s0",)), 0)

    assert not answer("s2", rival), "s1 and s2 are no majority of the configuration that was decided before"
    assert not answer("s3"), "but one of the rival configuration is not enough"
    assert answer("s4")


def test_a_voter_agrees_to_a_configuration_that_it_had_heard_of_before_it_was_asked() -> None:
    """A repair had brought it the configuration of a root that could not decide it without this voter."""
    voters = Voters(1)
    here, registry = voters.views["s1"], voters.registries["s1"]
    here.mark_dead("s0", 1)
    heard = Configuration(3, (Voter("s2", 1, ""), Voter("s1", 1, "")))
    here.follow(heard)

    def answer(new: Configuration, number: int) -> Enrolled:
        candidate = new.voters[0].name
        question = Enrol(number, 1, (Life("s0", 1),), new, heard, here.decided)
        registry.handlers[Enrol](candidate, question, 0)
        told = voters.streams.between("s1", candidate)[-1]
        assert isinstance(told, Enrolled)
        return told

    assert answer(heard, 1).yes
    assert not answer(Configuration(3, (Voter("s3", 1, ""), Voter("s1", 1, ""))), 1).yes, (
        "one configuration per version"
    )


@pytest.mark.parametrize("is_withdrawn", [True, False])
def test_a_configuration_that_its_proposer_gave_up_by_dying_needs_nobodys_consent(is_withdrawn: bool) -> None:
    """A root that was cut off had proposed a configuration of itself and a voter that then lost its disk, and one other
    voter had agreed to it. The next life of the root knew that it was not decided; the repair waited for the disk."""
    voters = Voters(1)
    registry, here = voters.registries["s1"], voters.views["s1"]
    here.mark_dead("s0", 1)
    assert not registry.register(frozenset(("s0",)), 0)
    proposed = Configuration(3, (Voter("s0", 1, "", True), Voter("s4", 1, "", True)))
    number = next(message.number for message in voters.streams.between("s1", "s2") if isinstance(message, Enrol))

    def answer(peer: str, *undecided: Configuration) -> bool:
        registry.handlers[Enrolled](peer, Enrolled(number, 1, True, (), here.decided, undecided), 0)
        return registry.register(frozenset(("s0",)), 0)

    assert not answer("s2", proposed) and not answer("s3"), "a majority of the last, and none of what was proposed"
    registry.met_heir(Heir("s0", frozenset((Life("s0", 1), Life("s0", 2)))), "s0")
    assert answer("s0", *(() if is_withdrawn else (proposed,))) == is_withdrawn
    assert answer("s2", proposed) == is_withdrawn, "one that still tells of it changes nothing"


def test_the_root_does_not_follow_a_configuration_of_brokers_that_another_tree_has_left_behind() -> None:
    """Brokers that had joined an earlier root of the same network proposed configurations of their own, and a voter had
    agreed to one. The root followed it, heard none of its voters, and lost its lease: it could tell nobody to join."""
    voters = Voters(1)
    registry, here = voters.registries["s1"], voters.views["s1"]
    here.parent = None
    here.neighbours = {"s2": True, "s3": True}
    own = Configuration(3, tuple([Voter(name, 1, "") for name in ("s1", "s2", "s3", "s4")]))
    here.follow_decided(own)
    rival = Configuration(7, (Voter("s4", 1, ""), Voter("strange", 1, "")))

    def proposed() -> Enrol:
        registry.tick(10_000)
        registry.register(frozenset(), 10_000)
        enrols = [message for message in voters.streams.between("s1", "s2") if isinstance(message, Enrol)]
        return enrols[-1]

    first = proposed()
    registry.handlers[Enrolled]("s4", Enrolled(first.number, 1, False, (), own, (rival,)), 10_000)
    assert here.configuration == own and here.leads_configuration
    second = proposed()
    assert second.new.version > rival.version and second.new.root == "s1"
    assert "strange" not in second.new.names
    for name in ("s2", "s3"):
        registry.handlers[Enrolled](name, Enrolled(second.number, 1, True, (), own, ()), 10_000)
    assert here.decided == second.new, "the consent of most voters of the last configuration is enough"
