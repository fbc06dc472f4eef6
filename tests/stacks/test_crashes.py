"""The default stack under random interleavings in which brokers die: promises hold, and the tree is whole again."""

import random

import pytest

from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.stacks.resprout import ResproutOptions
from tests.soak import cases
from tests.stacks.test_interleavings import (
    check_forgotten,
    check_nothing_lost,
    check_orders,
    check_receipts,
    check_totals,
    play,
)
from tests.stacks.tree import Tree


def draw_tree(seed: int, faults: int, root_ordered_after: int = 0) -> Tree:
    """Enough brokers that those who are left can decide."""
    rng = random.Random(f"mortal tree {seed}")
    brokers = [f"b{n}" for n in range(rng.randint(2 * faults + 1, 2 * faults + 5))]
    parents = {name: brokers[rng.randrange(n)] if n else None for n, name in enumerate(brokers)}
    homes = {f"c{n}": rng.choice(brokers) for n in range(rng.randint(2, 5))}
    options = ResproutOptions(
        faults_tolerated=faults, log_bytes=rng.choice((4096, 1 << 20)), root_ordered_after=root_ordered_after
    )
    tree = Tree(parents, homes, seed=seed, options=options, window=rng.choice((400, 4_000, 1 << 20)))
    tree.start()
    settle(tree)
    return tree


def settle(tree: Tree) -> None:
    """Until nobody has anything to say, with some signs of life in between: they bring down who votes for the root."""
    for _ in range(4):
        tree.run()
        tree.detector()
    tree.run()
    for _ in range(200):  # clients of the dead are told that something is delivered when no ghost is left
        if not any(machine.parts.unsettled.clients for machine in tree.brokers.values()):
            break
        tree.detector()
        tree.run()


def check_whole(tree: Tree) -> None:
    """The living form one tree, and every client is served by one of them."""
    parents = {name: machine.life.view.parent for name, machine in tree.brokers.items()}
    assert sum(parent is None for parent in parents.values()) == 1, parents
    for name, machine in tree.brokers.items():
        around = {other for other, parent in parents.items() if parent == name} | ({parents[name]} - {None})
        assert machine.life.view.neighbours == dict.fromkeys(around, True), (name, parents)
    served = [
        name
        for machine in tree.brokers.values()
        for name, g in machine.parts.sessions.all.items()
        if not name.startswith("~")
    ]
    assert sorted(served) == sorted(tree.delivered)


@pytest.mark.parametrize("faults", [1, 2])
@pytest.mark.parametrize("block", range(cases(1, 3)))
def test_brokers_may_die_at_any_moment_of_any_interleaving(block: int, faults: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        tree = draw_tree(seed, faults)
        rng = random.Random(f"crashes {seed} {faults}")
        victims = rng.sample(sorted(tree.brokers), faults)
        play(tree, seed, actions=60, crashes=victims)
        settle(tree)
        check_orders(tree)
        check_totals(tree)
        check_nothing_lost(tree)
        check_whole(tree)
        check_receipts(tree)
        check_forgotten(tree)


@pytest.mark.parametrize("seed", range(cases(6, 12)))
def test_a_broker_may_come_back_at_any_moment_and_die_again(seed: int) -> None:
    tree = draw_tree(seed, 1)
    rng = random.Random(f"returns {seed}")
    for turn in range(3):
        victim = rng.choice(sorted(tree.brokers))
        tree.crash(victim)
        for _ in range(rng.choice((0, 3, 30))):
            tree.one()
        tree.recover(victim)
        play(tree, 100 * turn + seed, actions=25)
        settle(tree)
        assert len(tree.brokers) == len(tree.parents), "everybody is back"
    check_orders(tree)
    check_totals(tree)
    check_whole(tree)
    check_forgotten(tree)


def test_a_parcel_larger_than_the_window_is_not_overtaken() -> None:
    """What is published while a newcomer is still being welcomed reaches it after the Welcome."""
    for seed in range(20):
        tree = Tree({"b0": None, "b1": "b0", "b2": "b1"}, {"p": "b0", "s": "b2"}, seed=seed, window=100)
        tree.start()
        for number in range(20):
            tree.ask("p", PublishRequest("t", b"%d" % number))
            tree.one()
        tree.ask("s", SubscribeRequest("t"))
        tree.run()
        tree.ask("p", PublishRequest("t", b"last"))
        tree.run()
        assert tree.delivered["s"][-1].payload == b"last"
        check_receipts(tree)
        check_forgotten(tree)
