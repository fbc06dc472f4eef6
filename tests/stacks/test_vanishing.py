"""Clients that vanish at any moment: they are owed nothing, and what everybody else is owed stays true."""

import random

import pytest

from resprout.core.guarantee import Guarantee
from resprout.edge.requests import PublishRequest, SubscribeRequest, UnsubscribeRequest
from resprout.stacks.resprout import ResproutBroker
from tests.soak import cases
from tests.stacks.test_interleavings import FILTERS, TOPICS, check_at_rest, check_nothing_lost, check_orders, draw_tree
from tests.stacks.tree import Tree

CONDITIONS = (None, None, "x > 1", "x > 5", "x is null")


def play_and_vanish(tree: Tree, seed: int) -> list[str]:
    """Random requests while now and then a client is lost; those that remain."""
    rng = random.Random(f"vanish {seed}")
    alive = list(tree.delivered)
    subscribed: dict[str, list[tuple[str, str | None]]] = {name: [] for name in alive}
    for _ in range(80):
        name = rng.choice(alive)
        roll = rng.random()
        if roll < 0.06 and len(alive) > 1:
            alive.remove(name)
            tree.lose(name)
        elif roll < 0.25:
            wanted = (rng.choice(FILTERS), rng.choice(CONDITIONS))
            if wanted not in subscribed[name]:
                subscribed[name].append(wanted)
                tree.ask(name, SubscribeRequest(*wanted))
        elif roll < 0.33 and subscribed[name]:
            tree.ask(name, UnsubscribeRequest(*subscribed[name].pop()))
        else:
            attributes = rng.choice(({}, {"x": 0}, {"x": 3}, {"x": 9}))
            guarantee = rng.choice(list(Guarantee))
            topic = rng.choice(TOPICS)
            burst = [PublishRequest(topic, b"", guarantee, (), attributes) for _ in range(rng.choice((1, 3)))]
            tree.ask_together(name, burst)
        for _ in range(rng.choice((0, 1, 5, 30))):
            tree.one()
    tree.run()
    return alive


@pytest.mark.parametrize("block", range(cases(2, 5)))
def test_who_remains_misses_nothing_and_nothing_of_who_went_is_left_behind(block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        tree = draw_tree(seed, window=(200, 1 << 20)[seed % 2], log_bytes=(4096, 1 << 20)[seed // 2 % 2])
        tree.run()
        alive = play_and_vanish(tree, seed)
        check_orders(tree)
        for name in [name for name in tree.delivered if name not in alive]:
            del tree.news[name]
        check_unconditional_owed(tree, alive)
        check_at_rest(tree)
        for machine in tree.machines.values():
            if isinstance(machine, ResproutBroker):
                assert set(machine.parts.sessions.all) <= set(alive)
                assert not machine.parts.pressure.holding


def check_unconditional_owed(tree: Tree, alive: list[str]) -> None:
    """The check of plain filters, on those that remain and what they published."""
    subset = Tree({"b": None}, dict.fromkeys(alive, "b"))
    subset.delivered = {name: tree.delivered[name] for name in alive}
    subset.history = [row for row in tree.history if row[0] in alive and not getattr(row[2], "where", None)]
    check_nothing_lost(subset)
