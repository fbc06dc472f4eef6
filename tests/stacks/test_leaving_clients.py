"""A client with many subscriptions leaves: they are dropped in portions, and a client of its name waits for that."""

import pytest

from resprout.core.contract import LinkDown, LinkUp
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.stacks.resprout import subscribing
from tests.stacks.tree import Tree

LINE: dict[str, str | None] = {"b0": None, "b1": "b0"}
HOMES = {"p": "b0", "many": "b1", "few": "b1"}
COUNT = 20


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(subscribing, "DROP_PORTION", 3)
    tree = Tree(LINE, dict(HOMES), seed=11)
    tree.start()
    tree.run()
    for number in range(COUNT):
        tree.ask("many", SubscribeRequest(f"t/{number}"))
    tree.ask("few", SubscribeRequest("t/+"))
    tree.run()
    return tree


def test_no_step_drops_more_than_a_portion_and_all_are_dropped_in_the_end(tree: Tree) -> None:
    parts = tree.brokers["b1"].parts
    index = parts.interest.index
    tree.perform("b1", tree.machines["b1"].step(LinkDown("many", "gone"), tree.now_us))
    assert len(index.predicates_of("many")) == COUNT - 3 and "many" in parts.client_interest.leaving
    tree.ask("p", PublishRequest("t/19", b"x"))
    tree.run()
    assert not parts.client_interest.leaving and not index.predicates_of("many")
    assert [message.payload for message in tree.delivered["few"]] == [b"x"]
    assert [one.filter for one in tree.brokers["b0"].parts.interest.index.predicates_of("b1")] == ["t/+"]


def test_a_client_of_its_name_is_served_when_they_are_dropped(tree: Tree) -> None:
    parts = tree.brokers["b1"].parts
    tree.perform("b1", tree.machines["b1"].step(LinkDown("many", "gone"), tree.now_us))
    clients = tree.brokers["b1"].parts.served
    out = parts.life.begin(tree.now_us)
    clients.arrive(LinkUp("many", "client", 2, 1 << 20))
    [close] = out
    assert close.reason == "the subscriptions of the last session of many are being dropped"  # type: ignore[attr-defined]
    tree.run()
    out = parts.life.begin(tree.now_us)
    clients.arrive(LinkUp("many", "client", 2, 1 << 20))
    assert not out and "many" in parts.sessions.all
