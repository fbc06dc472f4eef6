"""Totals while nothing fails: one order for all, and exactly as late as the formula says."""

import random

import pytest

from resprout.core.guarantee import Guarantee
from resprout.edge.requests import PublishRequest
from resprout.scenario.model import BrokerSpec, ClientSpec, Mix, RandomOptions, Scenario, SubscriptionSpec, WorkloadSpec
from resprout.sim.network import Distances
from resprout.sim.run import run_scenario
from resprout.trace.schema import Row
from tests.soak import cases
from tests.stacks.test_totals_repair import check, draw_tree, play

CLIENT_US = 1_000
BEGIN_US = 5_000_000
APART_US = 3_000_000


def draw_places(rng: random.Random) -> tuple[BrokerSpec, ...]:
    count = rng.randint(2, 7)
    parents = [f"b{rng.randrange(n)}" if n else None for n in range(count)]
    return tuple(BrokerSpec(f"b{n}", parent, rng.randint(1, 100) * 1_000) for n, parent in enumerate(parents))


def run(brokers: tuple[BrokerSpec, ...], publishers: list[str], operations: int, burst: int = 1) -> list[Row]:
    """A client at every broker that wants everything; some of them publish totals, one after the other."""
    clients = tuple(ClientSpec(f"c{at.name}", at.name, CLIENT_US, (SubscriptionSpec("t"),)) for at in brokers)
    options = RandomOptions(keys_max=1, foreign_keys=0.0, attributes=False, burst=burst)
    work = tuple(
        WorkloadSpec(
            "random", (f"c{name}",), ("t",), keys=3, operations=operations, mix=Mix(total=1.0), payload=8,
            start_us=BEGIN_US + n * APART_US, options=options,
        )
        for n, name in enumerate(publishers)
    )  # fmt: skip
    result = run_scenario(Scenario("totals", brokers, clients=clients, workloads=work, time_limit_us=100_000_000), None)
    assert result.ended == "quiescent"
    return result.rows


@pytest.mark.parametrize("seed", range(cases(6, 40)))
def test_without_contention_a_total_takes_exactly_as_long_as_the_formula_says(seed: int) -> None:
    """d(origin, root) + max over all brokers p of (d(root, p) + d(p, s))."""
    rng = random.Random(f"latency {seed}")
    brokers = draw_places(rng)
    ways = Distances()
    for at in brokers:
        ways.place(at.name, at.parent, at.latency_us)
    names = [at.name for at in brokers]
    rows = run(brokers, publishers := [rng.choice(names) for _ in range(3)], operations=1)
    began = [row for row in rows if row.kind == "publish"]
    assert len(began) == len(publishers)
    for origin, publication in zip(publishers, began, strict=True):
        given = [row for row in rows if row.kind == "deliver" and (row.publisher, row.seq) == _id(publication)]
        assert len(given) == len(brokers)
        for row in given:
            here = row.node.removeprefix("c")
            around = max(ways.between("b0", far) + ways.between(far, here) for far in names)
            expected_us = 2 * CLIENT_US + ways.between(origin, "b0") + around
            assert row.time_us - publication.time_us == expected_us, (origin, here)


def _id(row: Row) -> tuple[str | None, int | None]:
    return row.publisher, row.seq


@pytest.mark.parametrize("seed", range(cases(3, 20)))
def test_totals_of_one_publisher_take_no_longer_together_than_the_last_of_them_alone(seed: int) -> None:
    rng = random.Random(f"together {seed}")
    brokers = draw_places(rng)
    rows = run(brokers, [rng.choice(brokers).name], operations=20, burst=20)
    assert len({row.time_us for row in rows if row.kind == "publish"}) == 1, "all at once"
    for at in brokers:
        times = [row.time_us for row in rows if row.kind == "deliver" and row.node == f"c{at.name}"]
        assert len(times) == 20 and len(set(times)) == 1


def test_totals_that_close_side_by_side_stay_in_order() -> None:
    for seed in range(cases(4, 40)):
        tree, rng = draw_tree(seed)
        play(tree, rng, 40, (), totals=0.9)
        check(tree, 40)


def test_totals_that_contend_for_one_key_are_delivered_one_after_the_other() -> None:
    for seed in range(cases(4, 40)):
        tree, rng = draw_tree(seed)
        for number in range(15):
            client = rng.choice(sorted(tree.delivered))
            keys = ("hot", f"k{rng.randrange(3)}")
            tree.ask(client, PublishRequest("t", b"%d" % number, Guarantee.TOTAL, keys))
            for _ in range(rng.choice((0, 1, 5))):
                tree.one()
        tree.run()
        check(tree, 15)
        orders = {tuple(m.payload for m in messages) for messages in tree.delivered.values()}
        assert len(orders) == 1, "one key, one order of everything"
