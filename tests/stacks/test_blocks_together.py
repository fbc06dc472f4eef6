"""The blocks of three floors as one small system: causal multicast along a tree, around brokers that are dead.

It has no sessions, confirmations or recovery, so brokers die while nothing is on its way. What is shown is that view,
bypass, duplicates, clocks and hold-back fit together: everybody who lives delivers everything once, in causal order.
"""

from random import Random
from typing import NamedTuple

import pytest

from resprout.core.bundle import Bundle
from resprout.core.seen import SeenRanges
from resprout_lab.blocks.causal_order import Changes, HoldBack, VectorClock
from resprout_lab.blocks.neighbourhood import Neighbourhood
from resprout_lab.blocks.subscriptions import Subscriptions
from resprout_lab.flood.broker import Flooding
from tests.order.examples import bundle
from tests.overlay.graph import Graph
from tests.spread.examples import T

FAULTS = 2
GROUP = "t"


class Multicast(NamedTuple):
    bundle: Bundle
    changes: Changes
    past: frozenset[tuple[str, int]]


class Broker:
    def __init__(self, graph: Graph, name: str, dead: set[str]) -> None:
        self.name = name
        self.view = Neighbourhood(graph.place(name), FAULTS + 1)
        self.view.learn(graph.place(other) for other in graph.within(name, FAULTS + 1))
        self.dead = dead
        self.seen = SeenRanges()
        self.clock = VectorClock()
        self.sent_at = 0
        self.hold: HoldBack[tuple[str, str], Multicast] = HoldBack(self._missing)
        table = Subscriptions()
        table.add("client", 1, T)
        self.flooding = Flooding(table)
        self.shown: dict[tuple[str, int], None] = {}

    def publish(self) -> tuple[Multicast, list[str]]:
        number = self.clock.tick(GROUP, self.name)
        message = Multicast(bundle(number, publisher=self.name), self.clock.since(self.sent_at), frozenset(self.shown))
        self.sent_at = self.clock.version
        assert self.seen.is_new(message.bundle)
        self.shown[self.name, number] = None
        return message, self._onward(self.name)

    def receive(self, message: Multicast, sender: str) -> list[str]:
        if not self.seen.is_new(message.bundle):
            return []
        assert self.hold.put(message)
        while (held := self.hold.take()) is not None:
            assert self.flooding.onward(held.bundle, sender).readers == {"client": None}
            self.clock.merge(held.changes)
            assert self.shown.keys() >= held.past, "before its causes"
            self.shown[held.bundle.publisher, held.bundle.first] = None
            self.hold.reached((GROUP, held.bundle.publisher), held.bundle.first)
        return self._onward(sender)

    def _onward(self, sender: str) -> list[str]:
        hops = self.view.bypass(self.dead.__contains__).hops
        return [hop for hop in hops if self.view.is_between(sender, hop)]

    def _missing(self, message: Multicast) -> tuple[tuple[str, str], int] | None:
        return self.clock.missing(message.changes, own=(GROUP, message.bundle.publisher))


@pytest.mark.parametrize("seed", range(40))
def test_everybody_who_lives_delivers_everything_once_and_in_causal_order(seed: int) -> None:
    rng = Random(seed)
    graph = Graph.drawn(rng, rng.randint(2, 25))
    dead: set[str] = set()
    brokers = {name: Broker(graph, name, dead) for name in graph.names}
    published: set[tuple[str, int]] = set()
    copies = 0
    for _ in range(6):
        on_way: list[tuple[str, str, Multicast]] = []
        living = [name for name in graph.names if name not in dead]
        publications = rng.randint(1, 8)
        while publications or on_way:
            if publications and rng.random() < 0.3:
                publications -= 1
                name = rng.choice(living)
                message, hops = brokers[name].publish()
                published.add((name, message.bundle.first))
                on_way += [(name, hop, message) for hop in hops]
            elif on_way:
                sender, name, message = on_way.pop(rng.randrange(len(on_way)))
                copies += 1
                on_way += [(name, hop, message) for hop in brokers[name].receive(message, sender)]
        for name in living:
            assert set(brokers[name].shown) == published, name
            assert len(brokers[name].hold) == 0
        victim = rng.choice(living)
        dead.add(victim)
        if len(living) < 3 or any(
            broker.view.bypass(dead.__contains__).barriers for name, broker in brokers.items() if name not in dead
        ):
            dead.remove(victim)
    assert copies <= len(published) * (len(graph.names) - 1), "nobody gets a copy twice: the way around is a tree, too"
