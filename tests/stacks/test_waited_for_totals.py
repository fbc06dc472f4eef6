"""Receipts, of totals above all: at once for who waits, in company for who does not."""

from resprout.core.guarantee import ALL_LEVELS, Guarantee, ReceiptLevel
from resprout.edge.client.machine import ClientMachine
from resprout.edge.requests import PublishRequest, ReceiptTurned, SubscribeRequest
from tests.stacks.tree import Tree


def chain() -> Tree:
    """Three in a row, a publisher at the root's child, and a subscriber at each end."""
    homes = {"p": "b1", "up": "b0", "down": "b2"}
    tree = Tree({"b0": None, "b1": "b0", "b2": "b1"}, homes, seed=1)
    tree.start()
    tree.run()
    for name in ("up", "down"):
        tree.ask(name, SubscribeRequest("t"))
    tree.run()
    return tree


def publish(tree: Tree, guarantee: Guarantee, prompt: bool, awaits: int = ALL_LEVELS) -> None:
    publisher = tree.machines["p"]
    assert isinstance(publisher, ClientMachine)
    publisher.awaits = awaits if prompt else 0
    tree.ask("p", PublishRequest("t", b"x", guarantee, ("k",)))


def let_all_arrive(tree: Tree) -> None:
    """And no timer fire."""
    while busy := tree.streams.busy():
        tree.arrive(*next(iter(busy)))


def told(tree: Tree) -> list[tuple[ReceiptLevel, int]]:
    return [(news.receipt, news.last) for news in tree.news["p"] if isinstance(news, ReceiptTurned)]


def test_who_waits_for_the_receipts_of_a_total_is_told_without_any_timer() -> None:
    tree = chain()
    publish(tree, Guarantee.TOTAL, prompt=True)
    let_all_arrive(tree)
    assert len(tree.delivered["up"]) == len(tree.delivered["down"]) == 1
    assert (ReceiptLevel.SAFE, 1) in told(tree) and told(tree)[-1] == (ReceiptLevel.DELIVERED, 1)


def test_who_waits_for_what_is_carried_behind_a_total_is_told_as_soon() -> None:
    tree = chain()
    publish(tree, Guarantee.TOTAL, prompt=False)
    publish(tree, Guarantee.CAUSAL, prompt=True)
    let_all_arrive(tree)
    assert told(tree)[-1] == (ReceiptLevel.DELIVERED, 2)


def test_receipts_of_totals_that_nobody_waits_for_wait_for_company() -> None:
    tree = chain()
    for _ in range(3):
        publish(tree, Guarantee.TOTAL, prompt=False)
    let_all_arrive(tree)
    assert len(tree.delivered["up"]) == len(tree.delivered["down"]) == 3
    assert told(tree) == [], "they are safe, and nobody has asked"
    tree.run()
    assert told(tree)[-1] == (ReceiptLevel.DELIVERED, 3)


def test_who_waits_until_it_is_safe_hurries_nobody_who_only_delivers() -> None:
    tree = chain()
    publish(tree, Guarantee.CAUSAL, prompt=True, awaits=ReceiptLevel.SAFE.bit)
    let_all_arrive(tree)
    assert len(tree.delivered["up"]) == len(tree.delivered["down"]) == 1
    assert told(tree) == [(ReceiptLevel.ACCEPTED, 1), (ReceiptLevel.SAFE, 1)]
    tree.run()
    assert told(tree)[-1] == (ReceiptLevel.DELIVERED, 1)
