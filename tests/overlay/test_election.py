"""When a broker that has asked the voters about the root may declare the root dead."""

from collections import deque

import pytest

from resprout.core.contract import Outcome
from resprout.overlay.council import Council
from resprout.overlay.death_checks import CONSENT_LEASES, Election, Probes
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import Configuration, CouncilOptions, Declared, Place, Vote, Voter
from resprout.overlay.view import MembershipView

SECOND = 1_000_000
LEASE_US = 2 * SECOND
OPTIONS = CouncilOptions(heartbeat_us=SECOND // 2, lease_us=LEASE_US)
ROOT = "r"


def child_of_root() -> MembershipView:
    view = MembershipView("a", 1, "", 2)
    voters = tuple([Voter(name, 1, "") for name in (ROOT, "a", "b", "c")])
    view.network = "net"
    view.configuration = view.decided = Configuration(1, voters)
    view.parent = ROOT
    view.neighbours[ROOT] = True
    view.learn(Place(ROOT, 1, 1, None, ("a", "b", "c"), "", (1, 1, 1)))
    return view


class Asked:
    """A child of the root that has asked the two other children and itself about the root at time 0."""

    def __init__(self, accused: frozenset[str] = frozenset({ROOT})) -> None:
        view = self.view = child_of_root()
        detector = self.detector = LeaseDetector(view, OPTIONS)
        detector.follow_parent(-2 * LEASE_US)
        self.outcomes: deque[Outcome] = deque()
        probes = Probes(view, detector, lambda name, message: None)
        self.election = Election(view, detector, probes, lambda name, message: None, self.outcomes)
        self.election.call(accused, 0, False)
        assert self.election.ballot is not None

    def vote(self, name: str, now_us: int) -> None:
        assert self.election.ballot is not None
        self.election.handlers[Vote](name, Vote(self.election.ballot.number, True), now_us)


def test_a_majority_that_consents_in_time_declares_the_root_dead() -> None:
    asked = Asked()
    asked.vote("b", SECOND)
    assert not asked.outcomes
    asked.vote("c", 2 * SECOND)
    assert list(asked.outcomes) == [Declared((ROOT,))]


def test_consents_that_nobody_has_renewed_do_not_count_when_a_host_says_later_that_a_process_is_gone() -> None:
    """The root was heard again and the question was not put again. Seconds later the root left, and the broker counted
    the old consents: it declared the root dead although another broker had begun the repair."""
    asked = Asked()
    asked.vote("b", SECOND)
    late_us = SECOND + CONSENT_LEASES * LEASE_US
    asked.view.configuration = Configuration(2, tuple([Voter(name, 1, "") for name in ("c", "a", "b")]))
    asked.election.look_again(late_us)
    assert not asked.outcomes


def test_a_member_of_a_repair_of_the_root_does_not_begin_another() -> None:
    asked = Asked()
    asked.view.attached[ROOT] = "b"
    asked.vote("b", SECOND)
    asked.vote("c", SECOND)
    assert not asked.outcomes


@pytest.mark.parametrize("how", ["its host says so", "it is accused", "it was declared dead"])
def test_a_member_whose_coordinator_is_gone_as_well_begins_another_repair(how: str) -> None:
    asked = Asked(frozenset({ROOT, "b"} if how == "it is accused" else {ROOT}))
    asked.view.attached[ROOT] = "b"
    if how == "its host says so":
        asked.detector.lost("b", refused=True)
    elif how == "it was declared dead":
        asked.view.mark_dead("b", 1)
    asked.vote("c", SECOND)
    asked.vote("b", SECOND)
    assert asked.outcomes


@pytest.mark.parametrize("moves", [False, True])
def test_a_broker_that_gets_a_new_place_drops_its_question(moves: bool) -> None:
    view, outcomes = child_of_root(), deque[Outcome]()
    council = Council(view, OPTIONS, lambda name, message: None, outcomes)
    council.connected("b", 0, 1)
    council.suspect(ROOT, 0, force=True)
    if moves:
        view.parent = "b"
        council.connected("c", SECOND, 1)
    for name in ("b", "c"):
        council.take(name, Vote(1, True), SECOND)
    assert list(outcomes) == ([] if moves else [Declared((ROOT,))])
