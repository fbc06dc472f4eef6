"""Flooding along random trees, with and without the subscription table as a filter."""

from collections import deque
from collections.abc import Hashable
from random import Random

import pytest

from resprout.core.bundle import Bundle
from resprout.filters.predicate import Predicate, parse_predicate
from resprout_lab.blocks.subscriptions import Subscriptions
from resprout_lab.flood.broker import Flooding, Onward
from tests.spread.examples import T, bundle, table

TOPICS = ("t", "u", "v")


def test_a_bundle_goes_everywhere_but_back() -> None:
    subs = table("a", "b", "d")
    flooding = Flooding(subs)
    assert flooding.onward(bundle("t"), None) == Onward(["a", "b", "d"], {})
    assert flooding.onward(bundle("t"), "b") == Onward(["a", "d"], {})


def test_publishers_read_what_they_publish_if_they_ask_for_it() -> None:
    subs = table("a")
    subs.add("c", 1, T)
    assert Flooding(subs).onward(bundle("t"), "c") == Onward(["a"], {"c": None})


def test_with_a_filter_a_link_gets_only_what_is_wanted_behind_it() -> None:
    subs = table("a", "b")
    subs.add("a", 1, T)
    subs.add("b", 1, parse_predicate("t", "x > 1"))
    subs.add("c", 1, T)
    flooding = Flooding(subs, filtered=True)
    assert flooding.onward(bundle("u"), None) == Onward([], {})
    assert flooding.onward(bundle("t", {"x": 1}, {"x": 2}), None) == Onward(["a", "b"], {"c": None})
    assert flooding.onward(bundle("t", {"x": 1}), "a") == Onward([], {"c": None})
    assert Flooding(subs).onward(bundle("u"), None).links == ["a", "b"]


class Net:
    """A random tree of brokers, one client each, that tell each other subscriptions as their tables say."""

    def __init__(self, seed: int, filtered: bool) -> None:
        self.rng = rng = Random(seed)
        self.names = [f"b{number}" for number in range(rng.randint(1, 12))]
        self.tables = {name: Subscriptions() for name in self.names}
        self.flooding = {name: Flooding(subs, filtered) for name, subs in self.tables.items()}
        self.links = 0
        self.wanted: dict[str, dict[int, Predicate]] = {name: {} for name in self.names}
        for place, name in enumerate(self.names[1:], 1):
            above = rng.choice(self.names[:place])
            self.links += 1
            self.tables[name].add_neighbour(above)
            self.tables[above].add_neighbour(name)

    def subscribe(self, name: str, predicate: Predicate) -> None:
        number = len(self.wanted[name]) + 1
        self.wanted[name][number] = predicate
        self._ask(name, f"client of {name}", number, predicate)

    def unsubscribe(self, name: str) -> None:
        number, predicate = self.wanted[name].popitem()
        removed, told = self.tables[name].remove(f"client of {name}", number)
        assert removed == predicate
        self._withdraw(name, predicate, told)

    def _ask(self, name: str, direction: str, key: Hashable, predicate: Predicate) -> None:
        for other in self.tables[name].add(direction, key, predicate):
            self._ask(other, name, predicate, predicate)

    def _withdraw(self, name: str, predicate: Predicate, told: list[str]) -> None:
        for other in told:
            removed, further = self.tables[other].remove(name, predicate)
            assert removed == predicate
            self._withdraw(other, predicate, further)

    def publish(self, name: str, published: Bundle) -> tuple[list[str], int]:
        """Who reads it, and over how many links it went."""
        readers, crossings = [], 0
        on_way: deque[tuple[str, str | None]] = deque([(name, None)])
        while on_way:
            here, source = on_way.popleft()
            links, local = self.flooding[here].onward(published, source)
            readers += list(local)
            crossings += len(links)
            on_way.extend((link, here) for link in links)
            assert crossings <= self.links, "it goes round in circles"
        return sorted(readers), crossings


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_everybody_who_wants_it_reads_it_once(seed: int, filtered: bool) -> None:
    net = Net(seed, filtered)
    rng = net.rng
    for _ in range(40):
        name = rng.choice(net.names)
        if net.wanted[name] and rng.random() < 0.4:
            net.unsubscribe(name)
        else:
            net.subscribe(name, parse_predicate(rng.choice((*TOPICS, "#")), rng.choice((None, "x > 1"))))
        row = {"x": rng.randint(0, 3)}
        topic = rng.choice(TOPICS)
        owed = sorted(
            f"client of {other}"
            for other, wanted in net.wanted.items()
            if any(predicate.matches(topic, row) for predicate in wanted.values())
        )
        publisher = rng.choice(net.names)
        readers, crossings = net.publish(publisher, bundle(topic, row))
        assert readers == owed
        if not filtered:
            assert crossings == net.links
        elif owed in ([], [f"client of {publisher}"]):
            assert crossings == 0, "nobody elsewhere wants it"
