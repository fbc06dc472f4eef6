"""Interest under every interleaving of FIFO links: never a gap, and at rest exactly what is needed."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resprout.filters.predicate import Predicate, parse_predicate
from resprout.spread import asked, covers
from tests.soak import cases
from tests.spread.net import Net

FILTERS = ("a", "a/b", "a/c", "a/+", "a/#", "a/b/#", "+", "+/b", "+/+", "+/#", "#", "d/b", "$s/b", "$s/#")
CONDITIONS = (None, None, "x > 1", "x > 5", "x = 7", "x in (7, 9)", "x > 5 or y = 1", "x is not null", "y = 1")
PREDICATES = tuple(
    dict.fromkeys(parse_predicate(f, w) for f in FILTERS for w in CONDITIONS if w is None or f in ("a", "a/b", "a/#"))
)
ON_ONE_TOPIC = tuple(
    parse_predicate(f, w)
    for f in ("a", "a/#", "#", "+/#")
    for w in (
        "x > 1", "x > 2", "x > 5", "x >= 7", "x = 7", "x in (7, 9)", "x > 5 or y = 1", "x is not null", "y = 1",
        "x > 1 and y = 1", "x > 5 and y = 1", "x < 8", "x < 4", "x != 3", "y is not null or x = 9",
    )
)  # fmt: skip
BOUNDS = {
    "no patience": (0, 0, 2, 16),
    "hardly any patience": (3, 100, 2, 16),
    "no moves": (256, 1 << 14, 0, 16),
    "flat": (256, 1 << 14, 2, 1),
    "low": (256, 1 << 14, 50, 2),
    "as it is": (256, 1 << 14, 2, 16),
    "without end": (1 << 30, 1 << 30, 1 << 30, 1 << 30),
}
"""PATIENCE, TEXT_MAX, MOVES_PER_NEED, HEIGHT_MAX."""
SHAPES: tuple[dict[str, str | None], ...] = (
    {"b0": None},
    {"b0": None, "b1": "b0"},
    {"b0": None, "b1": "b0", "b2": "b1"},
    {"b0": None, "b1": "b0", "b2": "b0", "b3": "b0"},
    {"b0": None, "b1": "b0", "b2": "b1", "b3": "b2", "b4": "b1"},
)
CLIENTS = 4


def net_of(shape: int, later: frozenset[str] = frozenset()) -> Net:
    parents = SHAPES[shape]
    brokers = list(parents)
    return Net(parents, {f"c{i}": brokers[(i * 2) % len(brokers)] for i in range(CLIENTS)}, later)


def toggle(net: Net, client: str, predicate: Predicate) -> None:
    if (client, predicate) in net.wanted:
        net.drop(client, predicate)
    else:
        net.want(client, predicate)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("toggle"), st.integers(0, CLIENTS - 1), st.integers(0, len(PREDICATES) - 1)),
        st.tuples(st.just("leave"), st.integers(0, CLIENTS - 1), st.just(0)),
        st.tuples(st.just("arrive"), st.integers(0, 20), st.integers(1, 6)),
    ),
    max_size=40,
)


@settings(max_examples=cases(100, 300), deadline=None, derandomize=True)
@given(shape=st.integers(0, len(SHAPES) - 1), actions=ACTIONS)
@example(shape=1, actions=[("toggle", 0, PREDICATES.index(parse_predicate(f))) for f in ("a/+", "a/#", "#", "#")])
def test_no_interleaving_opens_a_gap_and_at_rest_exactly_what_is_wanted_is_asked(
    shape: int, actions: list[tuple[str, int, int]]
) -> None:
    net = net_of(shape)
    for what, one, other in actions:
        if what == "toggle":
            toggle(net, f"c{one}", PREDICATES[other])
        elif what == "leave":
            net.leave(f"c{one}")
        else:
            for _ in range(other):
                net.step(one)
                net.check_no_gap()
        net.check_no_gap()
    while net.step(0):
        net.check_no_gap()
    net.check_at_rest()


def bounded(monkeypatch: pytest.MonkeyPatch, patience: int, text: int, moves: int, height: int) -> None:
    monkeypatch.setattr(covers, "PATIENCE", patience)
    monkeypatch.setattr(covers, "TEXT_MAX", text)
    monkeypatch.setattr(asked, "MOVES_PER_NEED", moves)
    monkeypatch.setattr(asked, "HEIGHT_MAX", height)


def live(rng: random.Random, predicates: Sequence[Predicate], compact: bool) -> None:
    """One long random history of a net, checked all the time, until nobody wants anything."""
    net = net_of(rng.randrange(len(SHAPES)))
    for _ in range(80):
        roll = rng.random()
        if roll < 0.45:
            toggle(net, f"c{rng.randrange(CLIENTS)}", rng.choice(predicates))
        elif roll < 0.48:
            net.leave(f"c{rng.randrange(CLIENTS)}")
        else:
            for _ in range(rng.choice((1, 1, 4, 15))):
                net.step(rng.randrange(100))
                net.check_no_gap()
        net.check_no_gap()
        if rng.random() < 0.05:
            net.check_forests()
            net.settle(rng.randrange(3))
            net.check_at_rest(compact)
    net.settle()
    net.check_at_rest(compact)
    if rng.random() < 0.5:
        for client in net.homes:
            net.leave(client)
    else:
        for client, predicate in rng.sample(list(net.wanted), len(net.wanted)):
            net.drop(client, predicate)
    net.settle()
    net.check_at_rest(compact)
    for broker in net.brokers.values():
        assert len(broker.interest.index) == 0


def test_long_random_histories_hold_too() -> None:
    for seed in range(cases(50, 150)):
        rng = random.Random(seed)
        # Few predicates that cover each other, so that they replace and inherit from each other all the time.
        live(rng, rng.sample(PREDICATES, rng.choice((3, 5, 8))), compact=True)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_whatever_the_bounds_are_there_is_no_gap(bounds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(monkeypatch, *BOUNDS[bounds])
    for seed in range(cases(15, 40)):
        rng = random.Random(f"{bounds} {seed}")
        kind = (PREDICATES, ON_ONE_TOPIC, PREDICATES + ON_ONE_TOPIC)[seed % 3]
        live(rng, rng.sample(kind, rng.choice((4, 8, 20))), compact=False)


def test_a_link_that_comes_up_late_hears_everything_and_holds_confirmations_back_until_then() -> None:
    for seed in range(cases(20, 60)):
        rng = random.Random(seed)
        later = frozenset(name for name in SHAPES[4] if rng.random() < 0.5)
        net = net_of(4, later)
        for _ in range(30):
            toggle(net, f"c{rng.randrange(CLIENTS)}", rng.choice(PREDICATES))
            for _ in range(rng.choice((0, 3))):
                net.step(rng.randrange(50))
        if any(child in later for child, _ in net.links):
            assert not net.confirmed, "somebody who may publish has not heard of it"
        for child, parent in net.links:
            net.join(child, parent)
            for _ in range(rng.choice((0, 3, 30))):
                net.step(rng.randrange(50))
                net.check_no_gap()
        net.settle()
        net.check_no_gap()
        net.check_at_rest()
