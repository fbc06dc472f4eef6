"""A client with many subscriptions leaves: they are dropped in portions, and a client of its name waits for that."""

import pytest

from resprout.core.contract import LinkDown, LinkUp, TimerFired
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


def test_many_clients_that_leave_together_have_no_more_than_two_portions_dropped_in_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them had a portion of its own: 64 clients of one identity with 1,500 subscriptions each took 2 s in a
    step, and 100 with 1,000 each, which end their sessions in the same turn, took 3 s."""
    monkeypatch.setattr(subscribing, "DROP_PORTION", 6)
    names = [f"c{number}" for number in range(20)]
    tree = Tree(LINE, dict.fromkeys(names, "b1"), seed=11)
    tree.start()
    tree.run()
    for at, name in enumerate(names):
        for number in range(4 if at % 2 else 9):
            tree.ask(name, SubscribeRequest(f"{name}/{number}"))
    tree.run()
    broker, index = tree.brokers["b1"], tree.brokers["b1"].parts.interest.index
    before = len(index)
    for name in names:
        tree.perform("b1", broker.step(LinkDown(name, "gone"), tree.now_us))
    assert before - len(index) <= 2 * 6
    dropped = []
    while broker.parts.client_interest.leaving:
        before = len(index)
        waiting = len(broker.parts.client_interest.leaving)
        tree.perform("b1", broker.step(TimerFired(subscribing.DropMore()), tree.now_us))
        dropped.append(before - len(index))
        assert dropped[-1] <= max(6, waiting)
    assert not [name for name in names if index.predicates_of(name)] and len(dropped) < 40
