"""Totals while brokers die: the rounds of closing go on over the new links, and everything is delivered alike."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.order.messages import KnownLock, id_of
from resprout.order.totals.handover import Handover, MergedLocks
from resprout.order.totals.totals import TotalsState
from resprout.stacks.resprout import ResproutBroker, ResproutOptions, parts
from tests.compiled import reaches_into
from tests.soak import cases
from tests.stacks.broken import Make, with_parts
from tests.stacks.test_crashes import settle
from tests.stacks.test_interleavings import check_forgotten, check_orders, check_receipts, check_totals
from tests.stacks.tree import Tree

KEYS: tuple[tuple[str, ...], ...] = ((), ("x",), ("x",), ("y",), ("x", "y"), ("u#x",))


def draw_tree(seed: int, make: Make = ResproutBroker) -> tuple[Tree, random.Random]:
    """Every broker has a client, and every client wants everything. The root has several children, so that two who
    hang on the same broker may die."""
    rng = random.Random(f"totals in repair {seed}")
    names = [f"b{n}" for n in range(rng.randint(5, 7))]
    parents = {name: names[rng.randrange(min(n, 3))] if n else None for n, name in enumerate(names)}
    homes = {f"c{name}": name for name in names}
    tree = Tree(parents, homes, seed=seed, options=ResproutOptions(faults_tolerated=2), make=make)
    tree.start()
    tree.run()
    for client in homes:
        tree.ask(client, SubscribeRequest("#"))
    tree.run()
    for _ in range(3):
        tree.detector()
        tree.run()
    return tree, rng


def play(tree: Tree, rng: random.Random, publications: int, victims: Sequence[str], totals: float) -> None:
    """Clients publish, and brokers die, each at any moment."""
    moments = [rng.randrange(publications) for _ in victims]
    clients = sorted(tree.delivered)
    for number in range(publications):
        for victim, moment in zip(victims, moments, strict=True):
            if moment == number:
                tree.crash(victim)
        guarantee = Guarantee.TOTAL if rng.random() < totals else rng.choice((Guarantee.CAUSAL, Guarantee.FIFO))
        tree.ask(rng.choice(clients), PublishRequest(rng.choice("ttu"), b"%d" % number, guarantee, rng.choice(KEYS)))
        for _ in range(rng.choice((0, 1, 3, 10))):
            tree.one()
    settle(tree)


def check(tree: Tree, publications: int) -> None:
    for client, messages in tree.delivered.items():
        assert {m.payload for m in messages} == {b"%d" % n for n in range(publications)}, f"{client} lacks something"
    check_orders(tree)
    check_totals(tree)
    check_receipts(tree)
    check_forgotten(tree)


def inner(tree: Tree) -> list[str]:
    """Brokers that others hang on."""
    return sorted({parent for parent in tree.parents.values() if parent is not None})


def crash_one(seed: int, make: Make = ResproutBroker) -> None:
    tree, rng = draw_tree(seed, make)
    play(tree, rng, 14, [rng.choice(inner(tree))], totals=0.4)
    check(tree, 14)


def crash_two(seed: int, make: Make = ResproutBroker) -> None:
    """Perhaps neighbours, perhaps children of one broker, which repairs both in one go or one after the other."""
    tree, rng = draw_tree(seed, make)
    play(tree, rng, 14, rng.sample(sorted(tree.brokers), 2), totals=0.3)
    check(tree, 14)


def crash_under_load(seed: int, make: Make = ResproutBroker) -> None:
    """Totals of one publisher close side by side meanwhile."""
    tree, rng = draw_tree(seed, make)
    play(tree, rng, 40, [rng.choice(inner(tree))], totals=0.9)
    check(tree, 40)


Crash = Callable[[int, Make], None]


@pytest.mark.parametrize("crash", [crash_one, crash_two, crash_under_load])
@pytest.mark.parametrize("block", range(cases(1, 8)))
def test_totals_survive_repairs_in_one_order(block: int, crash: Crash) -> None:
    for seed in range(8 * block, 8 * block + 8):
        crash(seed, ResproutBroker)


# -- each rule of the hand-over is needed ------------------------------------------------------------------------------


class ForgetsWhatMembersHadTold(Handover):
    def lead(self, merged: MergedLocks) -> None:
        super().lead(merged._replace(told={}))


class ReportsNothing(Handover):
    def report(self, dead: Any) -> tuple[KnownLock, ...]:
        return ()


class DeliversOnlyByItself(Handover):
    def deliver_at(self, bundle: Bundle) -> None:
        pass


class DeliversWithoutAWord(Handover):
    def deliver_at(self, bundle: Bundle) -> None:
        record = self._totals.locks.undelivered.get(id_of(bundle))
        if record is not None:
            self._totals.deliver_with_stamp(record, bundle.stamp)


class NeverSubmitsAgain(Handover):
    def resume(self) -> None:
        self._totals.state = TotalsState.RUNNING
        self._totals.progress()


class DoesNotGoOn(Handover):
    def resume(self) -> None:
        self._totals.state = TotalsState.RUNNING
        self._totals.resubmit()


@reaches_into("resprout.stacks.resprout.parts")
@pytest.mark.parametrize(
    ("broken", "crash", "first"),
    [
        (ForgetsWhatMembersHadTold, crash_under_load, 0),
        (ReportsNothing, crash_under_load, 0),
        (DeliversOnlyByItself, crash_under_load, 6),
        (DeliversWithoutAWord, crash_under_load, 13),
        (NeverSubmitsAgain, crash_one, 0),
        (DoesNotGoOn, crash_under_load, 4),
    ],
)
def test_without_any_one_of_its_rules_the_hand_over_fails(broken: type[Handover], crash: Crash, first: int) -> None:
    """From a seed on that shows it; a change of anything else may move that by some. What these runs rarely show is in
    `tests/order/test_handover.py`, word by word."""
    make = with_parts((parts, "Handover", broken))
    for seed in range(first, first + 30):
        crash(seed, ResproutBroker)
        try:
            crash(seed, make)
        except AssertionError:
            return
    raise AssertionError(f"{broken.__name__} does as well as the real one")
