"""Interest while brokers die: under every interleaving, what was confirmed stays true, and at rest exactly what is
wanted is asked. What a repair does to the interest of one broker is tested in `tests/spread`."""

import random
from collections.abc import Iterable

import pytest

from resprout.core.bundle import Origin
from resprout.core.message_fields import Reached
from resprout.edge.client.machine import ClientMachine
from resprout.edge.requests import SubscribeRequest, SubscriptionConfirmed, UnsubscribeRequest
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.spread.covers import Wish
from resprout.spread.interest import Interest
from resprout.spread.messages import Outbound
from resprout.stacks.resprout import ResproutBroker, parts
from tests.compiled import reaches_into
from tests.soak import cases
from tests.spread.net import UNIVERSE, matched
from tests.stacks import broken
from tests.stacks.broken import Make
from tests.stacks.tree import Tree

SHAPES: tuple[dict[str, str | None], ...] = (
    {"b0": None, "b1": "b0", "b2": "b1"},
    {"b0": None, "b1": "b0", "b2": "b1", "b3": "b1"},
    {"b0": None, "b1": "b0", "b2": "b1", "b3": "b1", "b4": "b0", "b5": "b3"},
    {"b0": None, "b1": "b0", "b2": "b1", "b3": "b2", "b4": "b3"},
)
WISHES: tuple[tuple[str, str | None], ...] = (
    ("a", None), ("a/b", None), ("a/#", None), ("#", None), ("+", None), ("a/+", "x > 5"), ("a/#", "x > 2"),
    ("d", None),
)  # fmt: skip
CLIENTS = 6

Claim = tuple[str, str, str | None]


class Claims:
    """What clients want, and what of it was confirmed to them; what a client asks to end is neither from then on."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.wanted: set[Claim] = set()
        self.confirmed: set[Claim] = set()
        self._read = 0

    def toggle(self, client: str, filter: str, where: str | None) -> None:
        claim = (client, filter, where)
        if claim not in self.wanted:
            self.wanted.add(claim)
            self._tree.ask(client, SubscribeRequest(filter, where))
        elif claim in self.confirmed:
            self.wanted.discard(claim)
            self.confirmed.discard(claim)
            self._tree.ask(client, UnsubscribeRequest(filter, where))

    def read(self) -> None:
        for client, kind, what in self._tree.history[self._read :]:
            if kind == "told" and isinstance(what, SubscriptionConfirmed):
                claim = (client, what.filter, what.where)
                if claim in self.wanted:
                    self.confirmed.add(claim)
        self._read = len(self._tree.history)


def home(tree: Tree, client: str) -> str:
    machine = tree.machines[client]
    assert isinstance(machine, ClientMachine)
    return machine.broker


def is_open(tree: Tree, one: str, other: str) -> bool:
    """Both ends say so: there is no repair between them."""
    brokers = tree.brokers
    return all(
        here in brokers and brokers[here].life.view.neighbours.get(there) is True
        for here, there in ((one, other), (other, one))
    )


def hops_toward(tree: Tree, goal: str) -> dict[str, str]:
    """For every other broker that is connected with it just now, the neighbour on its way there."""
    way: dict[str, str] = {}
    edge = [goal]
    while edge:
        here = edge.pop()
        for name in tree.brokers:
            if name != goal and name not in way and is_open(tree, name, here):
                way[name] = here
                edge.append(name)
    return way


def asked(tree: Tree, by: str, of: str) -> list[Predicate]:
    return list(tree.brokers[of].parts.interest.index.predicates_of(by))


def union(predicates: list[Predicate]) -> int:
    bits = 0
    for predicate in predicates:
        bits |= matched(predicate)
    return bits


def check_no_gap(tree: Tree, claims: Claims) -> None:
    """Every broker sends what a confirmed claim matches one hop nearer to its client."""
    claims.read()
    for client, filter, where in claims.confirmed:
        goal = home(tree, client)
        if goal not in tree.brokers:
            continue  # the client looks for another one; a ghost stands for it
        wanted = matched(parse_predicate(filter, where))
        for broker, hop in hops_toward(tree, goal).items():
            missing = wanted & ~union(asked(tree, hop, broker))
            assert not missing, (client, filter, where, broker, hop, UNIVERSE[missing.bit_length() - 1])


def check_at_rest(tree: Tree, claims: Claims) -> None:
    claims.read()
    assert claims.confirmed == claims.wanted, "at rest every wish is confirmed"
    for there in tree.brokers:
        for here in tree.brokers[there].life.view.neighbours:
            assert is_open(tree, here, there)
            behind = [
                parse_predicate(filter, where)
                for client, filter, where in claims.wanted
                if home(tree, client) == here or hops_toward(tree, home(tree, client)).get(there) == here
            ]
            assert set(asked(tree, here, there)) <= set(behind), "nothing is asked that nobody wants"
            assert union(asked(tree, here, there)) == union(behind), "all that is wanted is asked"


def is_calm(tree: Tree) -> bool:
    return all(
        is_open(tree, name, other) for name, broker in tree.brokers.items() for other in broker.life.view.neighbours
    )


def live(seed: int, make: Make = ResproutBroker) -> None:
    """A random history of a tree in which brokers die one after the other; checked all the time, and at rest."""
    rng = random.Random(f"mortal {seed}")
    parents = rng.choice(SHAPES)
    tree = Tree(parents, {f"c{n}": list(parents)[n % len(parents)] for n in range(CLIENTS)}, seed=seed, make=make)
    tree.start()
    tree.run()
    claims = Claims(tree)
    wishes = rng.sample(WISHES, rng.choice((3, 5, 8)))
    for _ in range(60):
        roll = rng.random()
        if roll < 0.4:
            claims.toggle(f"c{rng.randrange(CLIENTS)}", *rng.choice(wishes))
        elif roll < 0.45 and is_calm(tree) and len(tree.brokers) > 2:
            tree.crash(rng.choice(sorted(tree.brokers)))
        else:
            for _ in range(rng.choice((1, 1, 4, 15))):
                tree.one()
                check_no_gap(tree, claims)
        check_no_gap(tree, claims)
    tree.run()
    check_no_gap(tree, claims)
    check_at_rest(tree, claims)


SEEDS = 120


@pytest.mark.parametrize("first", range(0, cases(40, SEEDS), 20))
def test_deaths_at_any_moment_open_no_gap_and_at_rest_exactly_what_is_wanted_is_asked(first: int) -> None:
    for seed in range(first, first + 20):
        live(seed)


class _ForgetsWhatMembersAsk(Interest):
    def reconcile(self, name: str, asks: Iterable[tuple[int, Predicate, bool]], outbound: Outbound) -> list[Wish]:
        return super().reconcile(name, [], outbound)


class _PresumesTooMuch(Interest):
    def presume(
        self, name: str, served: Iterable[Predicate], base: dict[Origin, Reached], outbound: Outbound
    ) -> list[Wish]:
        return super().presume(name, [parse_predicate("#"), parse_predicate("$s/#")], base, outbound)


@reaches_into("resprout.stacks.resprout.parts")
@pytest.mark.parametrize(
    "make",
    [
        broken.promiser,
        broken.with_parts((parts, "Interest", _ForgetsWhatMembersAsk)),
        broken.with_parts((parts, "Interest", _PresumesTooMuch)),
    ],
    ids=["confirms at once", "forgets what members ask", "presumes too much"],
)
def test_interest_that_breaks_a_rule_is_noticed(make: Make) -> None:
    with pytest.raises(AssertionError):
        for seed in range(SEEDS):
            live(seed, make)
