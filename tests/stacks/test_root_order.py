"""Totals that the root publishes by itself go only where they are read, and keep every promise of other totals."""

import random
from collections.abc import Collection

import pytest

from resprout.core.guarantee import Guarantee
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.order.messages import AlreadyOrdered, Lock, OrderedTotal, Submit
from resprout.stacks.resprout import ResproutOptions
from tests.order.examples import publication
from tests.soak import cases
from tests.stacks import test_crashes as mortal
from tests.stacks.test_crashes import check_whole, settle
from tests.stacks.test_interleavings import (
    check_at_rest,
    check_forgotten,
    check_nothing_lost,
    check_orders,
    check_receipts,
    check_totals,
    draw_tree,
    play,
)
from tests.stacks.tree import Tree

TOTAL, CAUSAL = Guarantee.TOTAL, Guarantee.CAUSAL
AT_ONCE = ResproutOptions(root_ordered_after=1)


def star(homes: dict[str, str], readers: Collection[str], *brokers: str, seed: int = 1) -> Tree:
    """A root `r` with these children. The topic `t` is root-ordered and settled, and everything has come to rest."""
    tree = Tree({"r": None, **dict.fromkeys(brokers, "r")}, homes, seed=seed, options=AT_ONCE)
    tree.start()
    tree.run()
    for name in readers:
        tree.ask(name, SubscribeRequest("t"))
    tree.run()
    tree.ask(next(iter(homes)), PublishRequest("t", b"first", TOTAL, ("k",)))
    tree.run()
    return tree


def said(tree: Tree, sender: str, receiver: str) -> list[str]:
    return [type(item).__name__ for _, item in tree.streams.between(sender, receiver)]


def arrive(tree: Tree, sender: str, receiver: str) -> None:
    """Everything that is under way from one to the other."""
    while tree.streams.between(sender, receiver):
        tree.arrive(sender, receiver)


def payloads(tree: Tree, name: str) -> list[bytes]:
    return [message.payload for message in tree.delivered[name]]


def check_all(tree: Tree) -> None:
    check_orders(tree)
    check_totals(tree)
    check_nothing_lost(tree)
    check_at_rest(tree)


def test_a_total_goes_to_its_readers_and_its_publisher_and_nobody_closes_it() -> None:
    tree = star({"p": "a", "c": "s"}, ["c"], "a", "s", "x")
    tree.ask("p", PublishRequest("t", b"U", TOTAL, ("k",)))
    arrive(tree, "p", "a")
    arrive(tree, "a", "r")
    assert OrderedTotal.__name__ in said(tree, "r", "s"), "it is read there"
    assert OrderedTotal.__name__ in said(tree, "r", "a"), "it comes from there"
    assert not {OrderedTotal.__name__, Lock.__name__} & {*said(tree, "r", "x")}
    tree.run()
    assert payloads(tree, "c") == [b"first", b"U"]
    assert all(message.tseq >= 0 for message in tree.delivered["c"])
    check_all(tree)


def test_a_total_that_nobody_reads_has_as_many_copies_as_any_other() -> None:
    tree = star({"p": "r"}, [], "a", "x")
    tree.ask("p", PublishRequest("t", b"U", TOTAL, ("k",)))
    arrive(tree, "p", "r")
    assert [said(tree, "r", name).count(OrderedTotal.__name__) for name in ("a", "x")] == [1, 0]
    tree.run()
    check_all(tree)


def test_a_broker_without_readers_that_begins_to_publish_does_not_divide_a_total() -> None:
    """The second counterexample of record 0082: x knows nothing of U, which s has and a has not, and its client
    publishes for the first time, on a key of U."""
    tree = star({"p": "r", "ca": "a", "cs": "s", "cx": "x"}, ["ca", "cs"], "a", "s", "x")
    tree.ask("p", PublishRequest("t", b"U", TOTAL, ("k",)))
    arrive(tree, "p", "r")
    arrive(tree, "r", "s")
    tree.ask("cx", PublishRequest("t", b"m", CAUSAL, ("k",)))
    arrive(tree, "cx", "x")
    arrive(tree, "x", "r")
    arrive(tree, "r", "s")
    tree.run()
    assert payloads(tree, "ca") == payloads(tree, "cs") == [b"first", b"U", b"m"]
    check_all(tree)


def test_a_total_with_fewer_brokers_does_not_overtake_an_earlier_one_that_is_being_closed() -> None:
    """The third counterexample: T, which all brokers close, is waiting for a far one when U comes, which need not be
    closed. Places, stamps and deliveries still have one order."""
    tree = star({"p": "r", "q": "z", "ca": "a"}, ["ca"], "a", "z")
    tree.ask("ca", SubscribeRequest("other"))
    tree.run()
    tree.ask("q", PublishRequest("other", b"T", TOTAL, ("k",)))
    arrive(tree, "q", "z")
    arrive(tree, "z", "r")
    tree.ask("p", PublishRequest("t", b"U", TOTAL, ("k",)))
    arrive(tree, "p", "r")
    arrive(tree, "r", "a")
    assert payloads(tree, "ca") == [b"first"], "the far broker has not closed the one before"
    tree.run()
    assert payloads(tree, "ca") == [b"first", b"T", b"U"]
    places = [message.tseq for message in tree.delivered["ca"]]
    assert places == sorted(places)
    check_all(tree)


def test_a_client_that_moves_does_not_publish_ahead_of_a_total_that_it_has_received() -> None:
    """The first counterexample: c has U from a, which dies, and publishes its effect wherever it goes. s has not
    received U yet, and the effect comes behind it."""
    tree = star({"p": "r", "c": "a", "cs": "s", "d": "x"}, ["c", "cs"], "a", "s", "x")
    tree.ask("cs", SubscribeRequest("u"))
    tree.run()
    tree.detector()
    tree.run()
    tree.ask("p", PublishRequest("t", b"U", TOTAL, ("k",)))
    arrive(tree, "p", "r")
    arrive(tree, "r", "a")
    arrive(tree, "a", "c")
    tree.crash("a")
    tree.react = lambda name, message: []
    for _ in range(400):
        busy = [pair for pair in tree.streams.busy() if pair != ("r", "s")]
        if not busy:
            break
        tree.arrive(*random.Random(1).choice(busy))
    tree.ask("c", PublishRequest("u", b"m", CAUSAL, ("k",)))
    settle(tree)
    assert payloads(tree, "cs") == [b"first", b"U", b"m"]
    check_orders(tree)
    check_totals(tree)
    check_forgotten(tree)


@pytest.mark.parametrize("lost", [True, False])
def test_a_repair_hands_on_a_total_to_those_who_were_to_have_it_and_to_nobody_else(lost: bool) -> None:
    """The fourth counterexample: the broker between the root and two others dies, when it has passed U on or not."""
    parents = {"r": None, "d": "r", "a": "d", "x": "d", "y": "x"}
    tree = Tree(parents, {"p": "r", "ca": "a", "cx": "y"}, seed=3, options=AT_ONCE)
    tree.start()
    tree.run()
    tree.ask("ca", SubscribeRequest("t"))
    tree.run()
    tree.ask("p", PublishRequest("t", b"first", TOTAL, ("k",)))
    settle(tree)
    tree.ask("p", PublishRequest("t", b"U", TOTAL, ("k",)))
    arrive(tree, "p", "r")
    if not lost:
        arrive(tree, "r", "d")
    tree.crash("d")
    settle(tree)
    tree.ask("cx", SubscribeRequest("t"))
    tree.run()
    tree.ask("cx", PublishRequest("t", b"m", CAUSAL, ("k",)))
    settle(tree)
    assert payloads(tree, "ca") == [b"first", b"U", b"m"]
    assert payloads(tree, "cx") == [b"m"]
    check_orders(tree)
    check_totals(tree)
    check_whole(tree)
    check_forgotten(tree)


def test_the_root_dies_and_the_next_one_goes_on() -> None:
    tree = Tree({"r": None, "a": "r", "s": "r", "x": "s"}, {"p": "x", "c": "a"}, seed=5, options=AT_ONCE)
    tree.start()
    tree.run()
    tree.ask("c", SubscribeRequest("t"))
    tree.run()
    tree.ask("p", PublishRequest("t", b"first", TOTAL, ("k",)))
    settle(tree)
    tree.ask("p", PublishRequest("t", b"U", TOTAL, ("k",)))
    arrive(tree, "p", "x")
    arrive(tree, "x", "s")
    arrive(tree, "s", "r")
    tree.crash("r")
    settle(tree)
    tree.ask("p", PublishRequest("t", b"V", TOTAL, ("k",)))
    settle(tree)
    assert payloads(tree, "c") == [b"first", b"U", b"V"]
    check_orders(tree)
    check_totals(tree)
    check_whole(tree)
    check_receipts(tree)
    check_forgotten(tree)


def test_who_submits_a_total_that_was_ordered_is_told_so() -> None:
    """A client has moved, and says again what was delivered long ago where it is read."""
    tree = star({"p": "a", "c": "s"}, ["c"], "a", "s", "x")
    tree.ask("p", PublishRequest("t", b"U", TOTAL, ("k",)))
    tree.run()
    seen = tree.brokers["x"].parts.seen
    assert seen.mark(("p", "ordered", 1)) == 1, "it was told only the first, which all have closed"
    again = publication("p", 2, ("k",), TOTAL)
    tree.forge("x", "r", Submit(again))
    arrive(tree, "x", "r")
    assert AlreadyOrdered.__name__ in said(tree, "r", "x")
    tree.run()
    check_all(tree)


def test_a_subscription_that_begins_while_totals_come_misses_none_that_follow_it() -> None:
    for seed in range(cases(10, 100)):
        tree = star({"p": "r", "c": "x", "e": "x", "d": "a", "g": "y"}, ["d"], "a", "x", "y", seed=seed)
        rng = random.Random(seed)
        late = ["c", "g", "e"]
        for number in range(30):
            tree.ask("p", PublishRequest("t", b"%d" % number, TOTAL, ("k",)))
            if number % 10 == 5:
                tree.ask(late.pop(), SubscribeRequest("t"))
            for _ in range(rng.randint(0, 12)):
                tree.one()
        tree.run()
        check_all(tree)


@pytest.mark.parametrize("block", range(cases(2, 20)))
def test_any_interleaving_keeps_order_loses_nothing_and_leaves_nothing_behind(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        tree = draw_tree(seed, faults=int(seed % 5 > 0), root_ordered_after=1 + seed % 2)
        play(tree, seed, actions=60, totals=1 + seed % 3)
        check_all(tree)


@pytest.mark.parametrize("block", range(cases(1, 10)))
def test_brokers_may_die_at_any_moment_of_any_interleaving(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        tree = mortal.draw_tree(seed, 1, root_ordered_after=1)
        victim = "b0" if seed % 2 else random.Random(seed).choice(sorted(tree.brokers))
        play(tree, seed, actions=60, totals=1 + seed % 3, crashes=[victim])
        settle(tree)
        check_orders(tree)
        check_totals(tree)
        check_nothing_lost(tree)
        check_whole(tree)
        check_receipts(tree)
        check_forgotten(tree)
