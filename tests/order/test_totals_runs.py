"""Totals and plain publications under random interleavings of FIFO links, while nothing fails."""

import random

from resprout.core.guarantee import Guarantee
from resprout.order.totals.messages import id_of
from tests.order.totals_checks import faults_of
from tests.order.totals_draw import add_joins, draw_net, draw_parents
from tests.order.totals_net import Net
from tests.order.totals_node import publication
from tests.soak import cases


def test_every_total_is_delivered_everywhere_between_the_same_publications_with_one_stamp() -> None:
    for seed in range(cases(150, 500)):
        net = draw_net(seed)
        net.run()
        assert not faults_of(net), f"seed {seed}"


def test_totals_of_one_publisher_close_side_by_side_and_stay_in_order() -> None:
    together, tried = 0, cases(40, 120)
    for seed in range(tried):
        net = draw_net(seed, publications=40, span=60, totals=0.9)
        net.run(pause_after=150)
        together += sum(len(node.totals.backlog.of(f"c{i}")) > 1 for node in net.alive for i in range(5))
        net.run()
        assert not faults_of(net), f"seed {seed}"
    assert together > 3 * tried, "the test means something"


def test_totals_of_one_publisher_take_no_longer_together_than_the_last_of_them_alone() -> None:
    for seed in range(cases(20, 50)):
        rng = random.Random(f"together {seed}")
        net = Net(draw_parents(rng, 6), lambda a, b: 10, rng)
        net.place("c", rng.choice(list(net.nodes)))
        for first in range(1, 30):
            net.publish(publication("c", first, (f"k{first}",), Guarantee.TOTAL))
        net.run()
        assert not faults_of(net), f"seed {seed}"
        for node in net.alive:
            assert len({node.times["c", 1, first] for first in range(1, 30)}) == 1


def test_totals_that_contend_for_one_key_are_delivered_one_after_the_other() -> None:
    for seed in range(cases(20, 40)):
        rng = random.Random(f"contention {seed}")
        net = Net(draw_parents(rng, 6), lambda a, b, rng=rng: rng.randint(1, 20), rng)  # type: ignore[misc]
        for i, home in enumerate(net.nodes):
            net.place(f"c{i}", home)
            for first in range(1, 6):
                net.publish(publication(f"c{i}", first, ("hot", f"k{rng.randrange(3)}"), Guarantee.TOTAL))
        net.run()
        assert not faults_of(net), f"seed {seed}"
        logs = [[id_of(bundle) for bundle in node.log] for node in net.alive]
        assert all(log == logs[0] for log in logs), f"seed {seed}: one key, one order of everything"


def test_without_contention_a_total_takes_exactly_as_long_as_the_formula_says() -> None:
    """d(origin, root) + max over all brokers p of (d(root, p) + d(p, s))."""
    for seed in range(cases(70, 200)):
        rng = random.Random(f"latency {seed}")
        parents = draw_parents(rng, rng.randint(1, 9))
        lengths = {frozenset((name, parent)): rng.randint(1, 100) for name, parent in parents.items() if parent}
        net = Net(parents, lambda a, b, lengths=lengths: lengths[frozenset((a, b))], rng)  # type: ignore[misc]
        names = list(parents)
        origins = [rng.choice(names) for _ in range(4)]
        begins = sorted(rng.randrange(300) for _ in origins)
        for i, (origin, begin) in enumerate(zip(origins, begins, strict=True)):
            net.place(f"c{i}", origin)
            total = publication(f"c{i}", 1, (f"k{i}",), Guarantee.TOTAL)
            net.at(begin, lambda net=net, total=total: net.publish(total))  # type: ignore[misc]
        net.run()

        def distance(a: str, b: str, parents: dict[str, str | None] = parents) -> int:
            ups = [_way_up(parents, a), _way_up(parents, b)]
            only = [[name for name in up if name not in other] for up, other in (ups, ups[::-1])]
            return sum(lengths[frozenset((n, parents[n] or ""))] for up in only for n in up)  # noqa: B023

        for i, (origin, begin) in enumerate(zip(origins, begins, strict=True)):
            for node in net.alive:
                around = max(distance("b0", p) + distance(p, node.name) for p in names)
                assert node.times[f"c{i}", 1, 1] - begin == distance(origin, "b0") + around


def _way_up(parents: dict[str, str | None], name: str) -> list[str]:
    way = [name]
    while (parent := parents[way[-1]]) is not None:
        way.append(parent)
    return way


def test_a_broker_that_joins_while_totals_are_under_way_takes_part_in_them() -> None:
    joined, tried = 0, cases(100, 300)
    for seed in range(tried):
        net = draw_net(seed, brokers=5)
        add_joins(net, 3)
        net.run()
        assert not faults_of(net), f"seed {seed}"
        joined += sum(name.startswith("n") for name in net.nodes)
    assert joined > tried, "the test means something"
