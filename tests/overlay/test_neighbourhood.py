"""The tree within k hops, beside a graph that is searched by force."""

from collections.abc import Iterable
from random import Random

import pytest

from resprout.overlay.messages import LEAP_MAX, NEIGHBOURS_MAX, Place
from resprout_lab.blocks import neighbourhood
from resprout_lab.blocks.neighbourhood import Neighbourhood
from tests.network import Streams
from tests.overlay.graph import Graph
from tests.soak import cases


def place(name: str, *neighbours: str, incarnation: int = 1, version: int = 1) -> Place:
    return Place(name, incarnation, version, None, neighbours, f"at {name}")


def chain(hops: int = 3) -> Neighbourhood:
    """a - b - c - d - e - f, as b sees it."""
    here = Neighbourhood(place("b", "a", "c"), hops)
    here.learn([place("a", "b"), place("c", "b", "d"), place("d", "c", "e"), place("e", "d", "f"), place("f", "e")])
    return here


def test_the_view_ends_after_k_hops() -> None:
    assert chain().nodes() == {"a": 1, "c": 1, "d": 2, "e": 3}
    assert chain(hops=1).nodes() == {"a": 1, "c": 1}
    assert chain().nodes(within=2) == {"a": 1, "c": 1, "d": 2}
    assert chain().path("e") == ("b", "c", "d", "e") and chain().path("f") == ()
    assert chain().path_between("a", "d") == ("a", "b", "c", "d") and chain().path_between("d", "f") == ()
    assert chain().path_between("e", "c") == ("e", "d", "c") and chain().path_between("d", "d") == ("d",)
    assert chain().behind("c") == ["d", "e"]
    assert chain().is_between("a", "d") and not chain().is_between("c", "e") and not chain().is_between("a", "f")
    at_e = chain().place("e")
    assert at_e is not None and at_e.address == "at e" and chain().place("f") is None
    assert [one.name for one in chain().places(["e", "f", "b"])] == ["e", "b"]


def test_the_dead_are_passed_over_and_told() -> None:
    here = chain()
    assert here.bypass(lambda name: False).hops == {"a": (), "c": ()}
    bypass = here.bypass(lambda name: name in "cd")
    assert bypass.hops == {"a": (), "e": ("c", "d")} and bypass.barriers == ()
    assert here.toward(["d", "e", "a"], bypass) == ({"e": ["e"], "a": ["a"]}, ["d"])


def test_too_many_dead_in_a_row_are_a_barrier() -> None:
    bypass = chain().bypass(lambda name: name in "cd", within=2)
    assert bypass.hops == {"a": ()} and bypass.barriers == ("d",)
    assert chain().toward(["e", "d"], bypass) == ({}, ["e", "d"])


def test_the_newer_place_wins_and_what_was_known_is_no_news() -> None:
    here = chain()
    assert here.learn([place("d", "c", "e")]) == []
    assert here.learn([place("d", "c", version=2)]) == [place("d", "c", version=2)]
    assert here.nodes() == {"a": 1, "c": 1, "d": 2}
    assert here.learn([place("d", "c", "e", version=1)]) == []
    assert [news.name for news in here.learn([place("d", "c", "e", incarnation=2)])] == ["d", "e"], "e is back in view"


def test_news_may_come_in_any_order() -> None:
    here = Neighbourhood(place("b", "c"), 3)
    assert here.learn([place("e", "d")]) == [] and here.learn([place("d", "c", "e")]) == []
    assert [news.name for news in here.learn([place("c", "b", "d")])] == ["c", "d", "e"]


def test_a_link_that_only_one_end_lists_is_none_once_both_are_heard() -> None:
    here = Neighbourhood(place("b", "c"), 3)
    here.learn([place("c", "b", "d")])
    assert here.nodes() == {"c": 1, "d": 2}
    here.learn([place("d", "x")])
    assert here.nodes() == {"c": 1}


def test_what_is_reached_on_another_way_is_news_though_its_own_place_is_the_same() -> None:
    """The neighbour on the old way may have forgotten it meanwhile."""
    here = Neighbourhood(place("b", "a", "c"), 4)
    here.learn([place("a", "b", "s"), place("c", "b"), place("s", "a", "y"), place("y", "s")])
    news = here.learn([place("a", "b", version=2), place("c", "b", "s", version=2), place("s", "c", "y", version=2)])
    assert [told.name for told in news] == ["a", "c", "s", "y"]
    assert [told.name for told in here.concerning("a", news)] == ["c", "s", "y"]


def test_a_circle_while_news_is_on_its_way_is_walked_on_the_shorter_side() -> None:
    """b - c was given up for c - d, and only c and d were heard since."""
    here = Neighbourhood(place("a", "b", "d"), 5)
    here.learn([place("b", "a", "c"), place("c", "b", "d", "e"), place("d", "a", "c"), place("e", "c")])
    assert here.nodes() == {"b": 1, "d": 1, "c": 2, "e": 3} and here.path("e") == ("a", "b", "c", "e")
    here.learn([place("b", "a", version=2)])
    assert here.path("e") == ("a", "d", "c", "e")


def test_nobody_else_says_where_this_broker_stands() -> None:
    here = chain()
    assert here.learn([place("b", "x", version=9)]) == [] and here.nodes()["a"] == 1
    assert [news.name for news in here.move(place("b", "a", version=2))] == ["b"]
    assert here.nodes() == {"a": 1}


def test_a_neighbour_hears_what_is_within_its_own_reach_and_not_what_it_said() -> None:
    here = chain()
    assert [told.name for told in here.everything_for("a")] == ["b", "c", "d"], "e would be four hops away"
    assert [told.name for told in here.everything_for("c")] == ["b", "a"]
    assert here.concerning("c", [place("d", "c")]) == ()


@pytest.mark.parametrize(
    "bad",
    [
        place("", "c"),
        place("g", *(f"n{number}" for number in range(NEIGHBOURS_MAX + 1))),
        place("g", "g"),
        place("d", "c", version=LEAP_MAX + 2),
        place("d", "c", incarnation=-1),
    ],
)
def test_what_no_honest_broker_says_is_not_heard(bad: Place) -> None:
    here = chain()
    assert here.learn([bad]) == [] and here.nodes() == chain().nodes()


def test_memory_is_bounded_and_what_is_in_view_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhood, "STRAYS_MAX", 2)
    here = Neighbourhood(place("b", "c"), 3)
    here.learn([place("c", "b", "d"), place("e", "d"), place("x", "y"), place("z", "y"), place("d", "c", "e")])
    assert here.nodes() == {"c": 1, "d": 2, "e": 3}
    here.learn([place("w", "y")])
    monkeypatch.setattr(neighbourhood, "NODES_MAX", 3)
    here.move(place("b", "c", "y", version=2))
    assert here.nodes() == {"c": 1, "y": 1}


@pytest.mark.parametrize("seed", range(cases(40, 150)))
def test_paths_and_bypasses_are_those_of_the_whole_graph(seed: int) -> None:
    rng = Random(seed)
    graph = Graph.drawn(rng, rng.randint(1, 40))
    hops = rng.randint(1, 5)
    name = rng.choice(graph.names)
    near = graph.within(name, hops)
    view = Neighbourhood(graph.place(name), hops)
    places = [graph.place(other) for other in near] + [_stale(graph.place(other), rng) for other in near]
    rng.shuffle(places)
    for heard in places:
        view.learn([heard])
    assert view.nodes() == {other: distance for other, distance in near.items() if distance}
    for other in near:
        assert view.path(other) == graph.path(name, other)
        assert set(view.behind(other)) == {x for x in near if x != other and other in graph.path(name, x)}
        third = rng.choice(list(near))
        assert view.path_between(other, third) == graph.path(other, third)
        assert view.is_between(other, third) == (name in graph.path(other, third))
    dead = {other for other in graph.names if other != name and rng.random() < rng.choice((0.1, 0.4, 0.8))}
    within = rng.randint(1, hops)
    bypass = view.bypass(dead.__contains__, within)
    frontier = {}
    for other, distance in near.items():
        between = graph.path(name, other)[1:-1]
        if other != name and other not in dead and distance <= within and dead.issuperset(between):
            frontier[other] = between
    assert bypass.hops == frontier
    walls = [other for other, distance in near.items() if distance == within]
    assert set(bypass.barriers) == {other for other in walls if dead.issuperset(graph.path(name, other)[1:])}
    targets = rng.sample(sorted(near), rng.randint(0, len(near)))
    ways, cut_off = view.toward(targets, bypass)
    for target in targets:
        alive = [other for other in graph.path(name, target)[1 : within + 1] if other not in dead]
        assert (target in cut_off) == (not alive)
        assert not alive or target in ways[alive[0]]
    assert sorted([*cut_off, *(target for way in ways.values() for target in way)]) == sorted(targets)


def _stale(fresh: Place, rng: Random) -> Place:
    """What it has published before."""
    kept = tuple(other for other in fresh.neighbours if rng.random() < 0.5)
    return Place(fresh.name, fresh.incarnation, fresh.version - 1, None, (*kept, "somebody"), fresh.address)


class Net:
    """Views that tell each other news over the links of a tree that grows, shrinks and is replanted."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.hops = rng.randint(1, 4)
        self.graph = Graph(["n0"])
        self.views = {"n0": Neighbourhood(self.graph.place("n0"), self.hops)}
        self.streams: Streams[tuple[Place, ...]] = Streams()

    def join(self, name: str) -> None:
        above = self.rng.choice(self.graph.names)
        self.graph.add(name)
        self.views[name] = Neighbourhood(self.graph.place(name), self.hops)
        self._link(name, above)

    def leave(self) -> None:
        leaf = self.rng.choice([name for name in self.graph.names if len(self.graph.links[name]) == 1])
        (above,) = self.graph.links[leaf]
        self._unlink(leaf, above)
        self.graph.remove(leaf)
        del self.views[leaf]

    def replant(self) -> None:
        """A branch is cut off, and joins elsewhere."""
        one = self.rng.choice([name for name in self.graph.names if self.graph.links[name]])
        other = self.rng.choice(sorted(self.graph.links[one]))
        self._unlink(one, other)
        branch = sorted(self.graph.within(one, len(self.views)))
        rest = [name for name in self.graph.names if name not in branch]
        self._link(self.rng.choice(branch), self.rng.choice(rest))

    def _link(self, one: str, other: str) -> None:
        self.graph.link(one, other)
        for name in (one, other):
            self._tell(name, self.views[name].move(self.graph.place(name)))
        for name, peer in ((one, other), (other, one)):
            self._send(name, peer, self.views[name].everything_for(peer))

    def _unlink(self, one: str, other: str) -> None:
        self.graph.unlink(one, other)
        for name in (one, other):
            self._tell(name, self.views[name].move(self.graph.place(name)))

    def _tell(self, name: str, news: Iterable[Place]) -> None:
        told = list(news)
        for peer in self.graph.links[name]:
            self._send(name, peer, self.views[name].concerning(peer, told))

    def _send(self, name: str, peer: str, places: tuple[Place, ...]) -> None:
        if places:
            self.streams.put(name, peer, places)

    def run(self, steps: int = 1_000_000) -> None:
        while steps and (busy := self.streams.busy()):
            steps -= 1
            name, peer = self.rng.choice(busy)
            places = self.streams.take(name, peer)
            if peer in self.views and name in self.graph.links[peer]:
                self._tell(peer, self.views[peer].learn(places))

    def check(self) -> None:
        for name, view in self.views.items():
            near = self.graph.within(name, self.hops)
            assert view.nodes() == {other: distance for other, distance in near.items() if distance}, name
            assert all(view.path(other) == self.graph.path(name, other) for other in near)


@pytest.mark.parametrize("seed", range(cases(30, 120)))
def test_news_that_spreads_along_the_links_brings_every_view_to_the_tree_as_it_is(seed: int) -> None:
    net = Net(seed)
    for number in range(1, 30):
        roll = net.rng.random()
        if roll < 0.6 or len(net.views) < 4:
            net.join(f"n{number}")
        elif roll < 0.75:
            net.leave()
        else:
            net.replant()
        net.run(net.rng.choice((5, 50, 1_000_000)))
        if number % 5 == 0:
            net.run()
            net.check()
    net.run()
    net.check()
