"""The plain subscription table, alone and as a network of tables."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.errors import PeerError
from resprout.filters.predicate import Predicate, parse_predicate
from resprout_lab.blocks import subscriptions
from resprout_lab.blocks.subscriptions import Subscriptions
from tests.soak import cases
from tests.spread.examples import ALL, T, bundle, table


def test_whoever_asked_gets_what_matches() -> None:
    subs = table("n")
    subs.add("c", 1, T)
    subs.add("n", 1, ALL)
    assert subs.matches(bundle("t")) == {"c": None, "n": None}
    assert subs.matches(bundle("u")) == {"n": None}
    assert subs.remove("c", 1) == (T, ["n"])
    assert subs.matches(bundle("t")) == {"n": None}


def test_a_condition_picks_messages_of_a_bundle() -> None:
    subs = table()
    subs.add("rich", 1, parse_predicate("t", "amount > 10"))
    subs.add("any", 1, T)
    rows = ({"amount": 5}, {"amount": 50}, {"amount": 20})
    assert subs.matches(bundle("t", *rows)) == {"any": None, "rich": (1, 2)}
    assert subs.matches(bundle("t", *rows[1:])) == {"any": None, "rich": None}
    assert subs.matches(bundle("t", rows[0])) == {"any": None}
    assert subs.matches(bundle("t")) == {"any": None}


def test_the_same_wish_twice_is_two_subscriptions() -> None:
    subs = table("n")
    assert subs.add("c", 1, T) == ["n"] and subs.add("c", 2, T) == []
    assert subs.remove("c", 1) == (T, []) and subs.matches(bundle("t")) == {"c": None}
    assert subs.remove("c", 2) == (T, ["n"]) and subs.matches(bundle("t")) == {}


def test_a_request_that_comes_again_is_no_second_one() -> None:
    subs = table("n")
    assert subs.add("c", 1, T) == ["n"] and subs.add("c", 1, T) == []
    assert subs.remove("c", 1) == (T, ["n"]) and subs.remove("c", 1) == (None, [])
    with pytest.raises(PeerError, match=r"subscription 7 of c is for"):
        subs.add("c", 7, T)
        subs.add("c", 7, ALL)


def test_a_direction_may_not_ask_for_everything_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "SUBSCRIPTIONS_MAX", 2)
    subs = table()
    subs.add("c", 1, T)
    subs.add("c", 2, T)
    with pytest.raises(PeerError, match="more than 2"):
        subs.add("c", 3, ALL)


def test_a_neighbour_is_asked_for_what_others_want_and_told_when_none_does() -> None:
    subs = table("a", "b")
    assert subs.add("a", 1, T) == ["b"]
    assert subs.add("c", 1, T) == ["a"], "b has been asked"
    assert subs.add("d", 1, T) == []
    assert subs.wanted_beyond("a") == [T] and subs.add_neighbour("e") == [T]
    assert subs.remove("d", 1) == (T, [])
    assert subs.remove("c", 1) == (T, ["a"]), "only a itself wants it"
    assert subs.wanted_beyond("a") == []
    assert subs.remove("a", 1) == (T, ["b", "e"])


def test_what_a_direction_wanted_goes_with_it() -> None:
    subs = table("a", "b")
    subs.add("c", 1, T)
    subs.add("c", 2, T)
    subs.add("c", 3, ALL)
    subs.add("b", 1, T)
    assert subs.of("c") == (T, ALL)
    assert subs.remove_all("c") == [("b", T), ("a", ALL), ("b", ALL)]
    assert subs.remove_neighbour("b") == [("a", T)]
    assert subs.remove_all("c") == [] and subs.matches(bundle("t")) == {} and list(subs.neighbours) == ["a"]


PREDICATES = [T, ALL, parse_predicate("u/+"), parse_predicate("t", "x > 1")]


@settings(max_examples=cases(50, 150), deadline=None, derandomize=True)
@given(st.integers(0, 1 << 32), st.integers(1, 60))
def test_what_neighbours_were_asked_is_always_what_others_want(seed: int, steps: int) -> None:
    """Only what the table says is told; a plain set of triples knows what is right."""
    rng = Random(seed)
    subs = Subscriptions()
    asked: dict[str, set[Predicate]] = {}
    reference: dict[tuple[str, int], Predicate] = {}
    for _ in range(steps):
        direction, number = rng.choice("abcxyz"), rng.randint(1, 3)
        if direction in "abc" and rng.random() < 0.3:
            if direction in asked:
                reference = {key: predicate for key, predicate in reference.items() if key[0] != direction}
                del asked[direction]
                for name, withdrawn in subs.remove_neighbour(direction):
                    asked[name].remove(withdrawn)
            else:
                asked[direction] = set(subs.add_neighbour(direction))
        elif direction in "xyz" or direction in asked:
            if (direction, number) in reference:
                was = reference.pop((direction, number))
                predicate, told = subs.remove(direction, number)
                assert predicate == was
                for name in told:
                    asked[name].remove(was)
            else:
                wanted = reference[direction, number] = rng.choice(PREDICATES)
                for name in subs.add(direction, number, wanted):
                    assert wanted not in asked[name]
                    asked[name].add(wanted)
        for name, told_of in asked.items():
            assert told_of == {predicate for (holder, _), predicate in reference.items() if holder != name}
            assert told_of == set(subs.wanted_beyond(name))
        for topic, row in (("t", {"x": 2}), ("t", {"x": 0}), ("u/1", {}), ("v", {})):
            wanting = {holder for (holder, _), predicate in reference.items() if predicate.matches(topic, row)}
            assert set(subs.matches(bundle(topic, row))) == wanting
