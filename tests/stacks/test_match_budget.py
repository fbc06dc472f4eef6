"""Matching is paid for by who subscribed with conditions: inside a bundle, at its broker and at those on the way."""

import itertools
from typing import ClassVar

import pytest

from resprout.core.contract import EndCode
from resprout.core.limits import Attributes, ClientLimits
from resprout.edge.requests import PublishRequest, SessionLost, SubscribeRequest
from resprout.filters.predicate import parse_predicate
from resprout.stacks import routes
from tests.stacks.tree import Tree

LINE: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1"}
HOMES = {"p": "b0", "culprit": "b2", "honest": "b2"}
CONDITIONS = 20
MESSAGES = 60
TEXT = "a" * 1000


def long_condition(number: int, test: int = 0) -> str:
    """Never true of `TEXT`; nothing but the text decides. Conditions that were parsed are shared by all brokers of a
    process, so each test has others."""
    return f"text like '{'%_a_b' * 40}%{number}-{test}'"


class CountedTests:
    """Counts how often the conditions of the culprit are tested, at all brokers."""

    numbers: ClassVar = itertools.count(1)

    def __init__(self) -> None:
        self.number = next(self.numbers)
        self.count = 0

    def watched(self, number: int) -> str:
        """Return a condition that is counted."""
        where = long_condition(number, self.number)
        condition = parse_predicate("t", where).where
        assert condition is not None
        test = condition.matches

        def counted(attributes: Attributes) -> bool:
            self.count += 1
            return test(attributes)

        condition.matches = counted  # type: ignore[misc]
        return where


@pytest.fixture
def tests() -> CountedTests:
    return CountedTests()


def tree_with(limits: ClientLimits, tests: CountedTests) -> Tree:
    tree = Tree(LINE, dict(HOMES), seed=7)
    tree.start()
    tree.run()
    tree.brokers["b2"].parts.sessions.all["culprit"].limits = limits
    for number in range(CONDITIONS):
        tree.ask("culprit", SubscribeRequest("t", tests.watched(number)))
    tree.ask("honest", SubscribeRequest("t", "x > 50"))
    tree.run()
    return tree


def publish(tree: Tree) -> None:
    tree.ask_together(
        "p", [PublishRequest("t", b"%d" % x, attributes={"x": x, "text": TEXT}) for x in range(1, MESSAGES + 1)]
    )
    tree.run()


def test_whoever_subscribes_with_conditions_that_take_long_loses_its_session_and_nobody_else_waits(
    tests: CountedTests,
) -> None:
    """Attack 5: long conditions and one bundle with many messages. Without a budget each message was tested against
    each condition at each broker of the way, in one step."""
    tree = tree_with(ClientLimits(identity_steps=100_000), tests)
    publish(tree)
    assert [int(message.payload) for message in tree.delivered["honest"]] == list(range(51, MESSAGES + 1))
    [lost] = [news for news in tree.news["culprit"] if isinstance(news, SessionLost)]
    assert lost.over and lost.code is EndCode.FORBIDDEN
    assert lost.reason == (
        "testing the conditions of culprit takes more than 100000 steps in a second (limit identity_steps)"
    )
    steps = parse_predicate("t", long_condition(1)).where.price.most  # type: ignore[union-attr]
    assert tests.count <= (100_000 + 2 * routes.NEIGHBOUR_STEPS) // (steps * 9 // 10) + 3
    assert tests.count < CONDITIONS * MESSAGES // 3
    status = tree.brokers["b2"].status()
    assert status.refused["100000 is the limit (limits.identity_steps)"] == 1
    refused = "culprit was refused: 100000 is the limit (limits.identity_steps)"
    assert ("b2", "note", refused) in tree.notes


def test_a_neighbour_whose_conditions_take_too_long_is_given_the_bundle_without_a_test(
    tests: CountedTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands for others, and is never blamed. What nobody behind it wants ends there."""
    monkeypatch.setattr(routes, "NEIGHBOUR_STEPS", 1)
    tree = tree_with(ClientLimits(identity_steps=1 << 40), tests)
    publish(tree)
    assert [int(message.payload) for message in tree.delivered["honest"]] == list(range(51, MESSAGES + 1))
    assert not tree.delivered["culprit"] and not tree.closed
    assert tests.count == CONDITIONS * MESSAGES, "only where the culprit is served"


def test_what_was_spent_is_paid_off_with_time(tests: CountedTests) -> None:
    tree = tree_with(ClientLimits(identity_steps=50_000_000), tests)
    quotas, session = tree.brokers["b2"].parts.sessions.quotas, tree.brokers["b2"].parts.sessions.all["culprit"]
    now_us = tree.now_us
    assert quotas.spend(session, 50_000_000, now_us)
    assert quotas.spend(session, 25_000_000, now_us + 500_000)
    assert not quotas.spend(session, 1, now_us + 500_000)
    assert quotas.spend(session, 1, now_us + 500_001)
    assert set(quotas.overspent) == {"culprit"}


def test_cheap_conditions_are_matched_without_counting(tests: CountedTests) -> None:
    """Ordinary traffic pays nothing for the budget."""
    tree = Tree(LINE, dict(HOMES), seed=7)
    tree.start()
    tree.run()
    tree.brokers["b2"].parts.sessions.all["honest"].limits = ClientLimits(identity_steps=1)
    tree.ask("honest", SubscribeRequest("t", "x > 10 and x < 20"))
    tree.run()
    publish(tree)
    assert [int(message.payload) for message in tree.delivered["honest"]] == list(range(11, 20))
