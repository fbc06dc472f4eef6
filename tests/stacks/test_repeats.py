"""A publisher that returns in the same life, at another broker, and repeats its bundles with other boundaries."""

import random
from itertools import accumulate

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import LinkDown, LinkUp, Received
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Publish
from resprout.edge.requests import PublishRequest, SubscribeRequest
from tests.stacks.test_interleavings import check_at_rest
from tests.stacks.tree import Tree

LAST = 12


def bundles(rng: random.Random, guarantees: list[Guarantee], most: int) -> list[Bundle]:
    """The same messages, up to a number, in bundles as chance makes them. Messages of one bundle share a guarantee."""
    made: list[Bundle] = []
    first = 1
    while first <= LAST:
        alike = next((n for n in range(first, LAST + 1) if guarantees[n - 1] is not guarantees[first - 1]), LAST + 1)
        count = rng.randint(1, min(most, alike - first))
        payloads = pack_payloads([b"%d" % n for n in range(first, first + count)])
        made.append(Bundle("m", 1, first, count, 0, "t", ("k",), guarantees[first - 1], b"", payloads))
        first += count
    return made


def run(seed: int, kinds: list[Guarantee], crash: str | None = None, others: bool = False, most: int = LAST) -> Tree:
    """Publish all at one broker, and again at another, while messages between brokers are under way."""
    rng = random.Random(seed)
    parents = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b1", "b4": "b2"}
    tree = Tree(parents, {"near": "b3", "far": "b4", "q": "b4"}, seed=seed)
    tree.start()
    tree.run()
    for name in ("near", "far"):
        tree.ask(name, SubscribeRequest("t"))
    tree.run()
    sizes = list(accumulate([rng.randint(1, LAST) for _ in range(LAST)]))
    guarantees = [kinds[sum(n > size for size in sizes) % len(kinds)] for n in range(1, LAST + 1)]
    said = {broker: bundles(rng, guarantees, most) for broker in ("b3", "b4")}
    said["b3"] = said["b3"][: rng.randint(1, len(said["b3"]))]
    for broker, attend in (("b3", Attend(0)), ("b4", Attend(0, tried=("b3",), anyhow=True))):
        tree.step(broker, LinkUp("m", "client", 1, 1 << 20))
        tree.step(broker, Received("m", attend))
        for _ in range(rng.randint(0, 8)):
            tree.one()
        for bundle in said[broker]:
            if others and rng.random() < 0.3:
                tree.ask("q", PublishRequest("t", b"q", Guarantee.TOTAL, ("k",)))
            tree.step(broker, Received("m", Publish(bundle)))
            for _ in range(rng.randint(0, 6)):
                tree.one()
        if broker == "b3":
            tree.step("b3", LinkDown("m", "gone"))
    for _ in range(rng.randint(0, 10) if crash else 0):
        tree.one()
    if crash:
        tree.crash(crash)
    tree.run()
    return tree


def check(tree: Tree) -> None:
    for name in ("near", "far"):
        got = [int(m.payload) for m in tree.delivered[name] if m.publisher == "m"]
        assert got == list(range(1, LAST + 1))
    assert all("declared dead" in reason for *_, reason in tree.closed), "nobody takes it for a lie"


TOTAL, MIXED = [Guarantee.TOTAL], [Guarantee.CAUSAL, Guarantee.TOTAL]


@pytest.mark.parametrize("seed", range(30))
def test_totals_under_way_at_one_broker_are_repeated_at_another_in_other_bundles(seed: int) -> None:
    tree = run(seed, TOTAL)
    check(tree)
    check_at_rest(tree)


@pytest.mark.parametrize("dead", ["b0", "b1", "b2"])
@pytest.mark.parametrize("seed", range(8))
def test_a_repair_orders_the_rest_of_totals_that_are_repeated_in_other_bundles(seed: int, dead: str) -> None:
    check(run(seed, TOTAL, crash=dead))


@pytest.mark.parametrize("seed", range(15))
def test_single_publications_are_repeated_whether_they_are_carried_or_not(seed: int) -> None:
    """Totals of another client hold the key at one broker and not at the other."""
    tree = run(seed, MIXED, others=True, most=1)
    check(tree)
    check_at_rest(tree)


@pytest.mark.parametrize("kinds", [[Guarantee.CAUSAL], MIXED])
@pytest.mark.parametrize("dead", ["b0", "b1", "b2"])
@pytest.mark.parametrize("seed", range(4))
def test_single_publications_are_repeated_around_a_crash(seed: int, dead: str, kinds: list[Guarantee]) -> None:
    check(run(seed, kinds, crash=dead, most=1))


def test_a_repeat_does_not_come_behind_its_effect_where_the_original_never_was() -> None:
    """`late` subscribed after the publication of `m` was forgotten everywhere, and got an answer to it. Its broker had
    never had the publication, so it showed the repeat as a new one."""
    tree = Tree({"b0": None, "b1": "b0", "b2": "b1", "b3": "b2"}, {"q": "b0", "late": "b3"}, seed=1)
    tree.start()
    tree.run()
    tree.ask("q", SubscribeRequest("t"))
    tree.run()
    made = Bundle("m", 1, 1, 1, 0, "t", (), Guarantee.CAUSAL, b"", pack_payloads([b"1"]))
    for broker in ("b0", "b3"):
        tree.step(broker, LinkUp("m", "client", 1, 1 << 20))
        tree.step(broker, Received("m", Attend(0, tried=(broker,), home=tree.brokers[broker].life.seat.incarnation)))
        tree.step(broker, Received("m", Publish(made)))
        tree.run()
        if broker == "b0":
            tree.ask("late", SubscribeRequest("#"))
            tree.run()
            tree.ask("q", PublishRequest("answer", b"q", Guarantee.CAUSAL, ()))
            tree.step("b0", LinkDown("m", "gone"))
            tree.run()
    assert [message.publisher for message in tree.delivered["late"]] == ["q"]
