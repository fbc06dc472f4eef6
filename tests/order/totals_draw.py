"""Random trees with clients that publish at random; everything from the seed."""

import random
from collections.abc import Callable

from resprout.core.guarantee import Guarantee
from resprout.order.totals.handover import Handover
from resprout.order.totals.totals import Totals
from tests.order.totals_net import Net
from tests.order.totals_node import publication


def draw_parents(rng: random.Random, brokers: int) -> dict[str, str | None]:
    names = [f"b{i}" for i in range(brokers)]
    return {name: names[rng.randrange(i)] if i else None for i, name in enumerate(names)}


def draw_net(
    seed: int,
    *,
    brokers: int = 7,
    publications: int = 14,
    span: int = 150,
    totals: float | None = None,
    handover: Callable[[Totals], Handover] = Handover,
) -> Net:
    """At most so many brokers, at most so many publications in so much time. `totals`: their share, otherwise drawn. It
    has not begun to run."""
    rng = random.Random(f"totals {seed}")
    parents = draw_parents(rng, rng.randint(min(3, brokers), brokers))
    net = Net(parents, lambda a, b: rng.randint(1, 20), rng, handover)
    clients = [f"c{i}" for i in range(rng.randint(1, 5))]
    for client in clients:
        net.place(client, rng.choice(list(parents)))
    following = dict.fromkeys(clients, 1)
    share = rng.choice((0.3, 0.6)) if totals is None else totals
    for when in sorted(rng.randrange(span) for _ in range(rng.randint(publications // 2, publications))):
        client = rng.choice(clients)
        keys = tuple(sorted(rng.sample(("x", "y", "u#x"), rng.choice((0, 1, 1, 1, 2)))))
        count = rng.choice((1, 1, 3))
        guarantee = Guarantee.TOTAL if rng.random() < share else rng.choice((Guarantee.CAUSAL, Guarantee.FIFO))
        bundle = publication(client, following[client], keys, guarantee, count=count, topic=rng.choice(("t", "t", "u")))
        following[client] += count
        net.at(when, lambda bundle=bundle: net.publish(bundle))  # type: ignore[misc]
    return net


def add_crashes(net: Net, count: int, span: int = 200) -> None:
    rng = net.rng
    for _ in range(count):
        net.at(rng.randrange(span), lambda: net.crash(rng.choice(list(net.nodes)), rng.randint(1, 60)))


def add_joins(net: Net, count: int, span: int = 200) -> None:
    rng = net.rng
    for i in range(count):
        net.at(rng.randrange(span), lambda i=i: net.join(f"n{i}", rng.choice(list(net.nodes))))  # type: ignore[misc]
