"""Where the report's pseudocode fails: what the stack does instead, and what happens where the fix is switched off.
Named as in docs/stacks/scribe.md; S3, and what concerns trees alone of S1 and S2, stand in tests/overlay/test_chord.py
and tests/spread/test_scribe.py."""

from typing import Any

import pytest

from resprout.replicas.messages import Promise
from resprout.replicas.proposer import Proposer
from resprout.scenario.model import Scenario
from resprout_lab.scribe.broker import ScribeBroker
from resprout_lab.scribe.held import HeldTopic, scribed
from resprout_lab.scribe.log import PlaceBundle, PlacedAt, TopicLog
from resprout_lab.scribe.messages import PublishAt
from resprout_lab.scribe.trees import Trees
from tests.stacks.scribe_runs import ScribePlayed, fault, play, ring
from tests.stacks.test_scribe import after_owner, owner_of

BROKERS = 5
OWNER = owner_of("t", BROKERS)
TIMES_MS = range(3_150, 3_250, 20)


def struck(at_ms: int, name: str = OWNER, **more: Any) -> Scenario:
    """Everybody publishes and reads one topic; somebody dies in the middle of it."""
    return ring(BROKERS, operations=20, interval="10ms", more=fault(f"{at_ms}ms", "crash", name), **more)


def fails(scenario: Scenario) -> bool:
    played = play(scenario)
    return played.result.ended != "quiescent" or bool(played.broken())


# -- S1, S2: trees -----------------------------------------------------------------------------------------------------


def test_s1_what_is_published_comes_to_everybody_in_the_tree_and_repeats_are_no_second_ones() -> None:
    played = play(ring(BROKERS, operations=10))
    played.check_clean()
    assert played.verdict.counts["deliveries"] == BROKERS * BROKERS * 10


def test_s1_given_to_parents_and_not_to_children_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trees, "_onward", lambda self, place: [place.parent] if place.parent else [])
    monkeypatch.setattr(Trees, "_look_for", lambda self, place, position: None)  # nor is it made good
    assert fails(ring(BROKERS, operations=5))


def test_s2_without_the_child_noted_the_subscription_is_confirmed_and_nothing_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Trees, "_adopt", lambda self, place, name: None)
    assert fails(ring(BROKERS, operations=5))


# -- S4: what is decided stays -----------------------------------------------------------------------------------------


def test_s4_whatever_was_decided_is_proposed_again_by_the_next_leader() -> None:
    for at_ms in TIMES_MS:
        play(struck(at_ms)).check_clean()


def test_s4_a_leader_that_does_not_look_at_what_was_accepted_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    promise = Proposer.promise

    def forgetful(self: Proposer, member: str, message: Promise) -> None:
        promise(self, member, message)
        self._found.clear()

    monkeypatch.setattr(Proposer, "promise", forgetful)
    assert any(fails(struck(at_ms)) for at_ms in TIMES_MS)


def test_s4_who_holds_a_topic_is_decided_and_all_holders_know_the_same() -> None:
    played = play(ring(7, operations=20, more=fault("3200ms", "crash", owner_of("t", 7))))
    played.check_clean()
    held = played.holding("t").values()
    assert len({tuple(sorted(one.holders)) for one in held}) == 1
    assert len({one.replica.ledger.members for one in held}) == 1


def test_s4_with_a_membership_of_each_ones_own_two_holders_that_are_left_decide_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The dead are never replaced, so the second death in a row leaves no majority."""
    faults = fault("4s", "crash", OWNER) + fault("40s", "crash", after_owner("t", BROKERS, 1))
    scenario = ring(BROKERS, operations=100, interval="500ms", more=faults)
    assert not fails(scenario)
    monkeypatch.setattr(HeldTopic, "configure", lambda self, holders: None)
    assert fails(scenario)


# -- S5: proposed, decided, spread by the leader -----------------------------------------------------------------------


def test_s5_only_the_leader_spreads_and_what_it_had_not_spread_the_next_one_does() -> None:
    for at_ms in TIMES_MS:
        played: ScribePlayed = play(struck(at_ms, latency="10ms"))
        played.check_clean()


def test_s5_what_is_spread_without_being_decided_is_lost_or_doubled_with_its_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unproposed(self: HeldTopic, name: str, message: PublishAt) -> None:
        placed = self.log.apply(PlaceBundle(message.bundle, message.previous))
        if placed is not None:
            self._times.append((placed.position, self._step.now_us))
            self._house.spread(placed)
        if self.log.has(message.bundle):
            self._say_placed(name, (message.bundle.origin, message.bundle.first))

    monkeypatch.setattr(HeldTopic, "publish", unproposed)
    assert any(fails(struck(at_ms)) for at_ms in TIMES_MS)


def _keep_to_oneself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first leader has publications decided, tells publishers that they are safe, and dies before spreading any."""

    def spread(self: ScribeBroker, placed: PlacedAt) -> None:
        place = self.trees.places[placed.bundle.topic]
        children = place.children
        place.children = {} if self.owners.me.startswith(OWNER) else children
        self.trees.spread(scribed(placed))
        place.children = children

    give = HeldTopic.give_missed
    monkeypatch.setattr(ScribeBroker, "spread", spread)
    monkeypatch.setattr(
        HeldTopic,
        "give_missed",
        lambda self, name, asked: None if self._me.startswith(OWNER) else give(self, name, asked),
    )


def test_s5_what_the_leader_had_decided_and_not_spread_the_next_one_spreads(monkeypatch: pytest.MonkeyPatch) -> None:
    _keep_to_oneself(monkeypatch)
    play(struck(3_200)).check_clean()


def test_s5_a_leader_that_has_nothing_above_the_watermark_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    _keep_to_oneself(monkeypatch)
    monkeypatch.setattr(TopicLog, "after", lambda self, position: [])
    assert fails(struck(3_200))
