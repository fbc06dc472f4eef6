"""Conditions and keys through the tree: every subscriber gets exactly the messages that it asked for."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from resprout.core.bundle import topics_of
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.edge.requests import Published, PublishRequest, SubscribeRequest, SubscriptionConfirmed
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from tests.soak import cases
from tests.stacks.test_interleavings import check_at_rest, check_orders
from tests.stacks.tree import Tree

LINE: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1"}
CONDITIONS = (None, "x > 5", "x <= 5", "x is null", "kind = 'a'", "kind in ('b', 'c') or x = 3", "not kind = 'a'")


def rows(*values: Any) -> list[dict[str, AttributeValue]]:
    """Attributes of messages: `x` where a value is given, none at all for None."""
    return [{} if value is None else {"x": value} for value in values]


def publications(attributes: list[dict[str, AttributeValue]], **more: Any) -> list[PublishRequest]:
    return [PublishRequest("t", b"%d" % n, attributes=row, **more) for n, row in enumerate(attributes, 1)]


def tree_of(homes: Mapping[str, str], parents: dict[str, str | None] = LINE, faults: int = 1) -> Tree:
    tree = Tree(parents, dict(homes), seed=5, options=ResproutOptions(faults_tolerated=faults))
    tree.start()
    return tree


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


@pytest.mark.parametrize("home", ["b0", "b1", "b2"])
def test_a_condition_picks_some_messages_of_a_bundle_with_their_own_numbers(home: str) -> None:
    tree = tree_of({"p": "b0", "some": home, "all": "b2"})
    tree.ask("some", SubscribeRequest("t", "x > 5"))
    tree.ask("all", SubscribeRequest("t"))
    tree.run()
    tree.ask_together("p", publications(rows(9, 1, None, 7, "9")))
    tree.run()
    assert [(m.seq, m.payload, m.attributes) for m in tree.delivered["some"]] == [
        (1, b"1", {"x": 9}),
        (4, b"4", {"x": 7}),
    ]
    assert payloads(tree.delivered["all"]) == [b"1", b"2", b"3", b"4", b"5"]
    first = tree.machines["b0"]
    assert isinstance(first, ResproutBroker) and first.parts.log.next_no == 1, "they came as one bundle"
    check_at_rest(tree)


def test_a_bundle_of_which_nobody_wants_anything_goes_nowhere_beyond_the_copies_it_needs() -> None:
    for faults, copies in ((0, 1), (1, 2), (2, 3)):
        tree = tree_of({"p": "b0", "s": "b2"}, faults=faults)
        tree.ask("s", SubscribeRequest("t", "x > 5"))
        tree.run()
        tree.ask_together("p", publications(rows(1, 2, 3)))
        tree.run()
        brokers = [machine for machine in tree.machines.values() if isinstance(machine, ResproutBroker)]
        assert sum(machine.parts.log.next_no for machine in brokers) == copies
        assert tree.delivered["s"] == []
        check_at_rest(tree)


@pytest.mark.parametrize(("faults", "copies"), [(0, 1), (1, 2), (2, 3)])
def test_a_link_that_fell_behind_still_gets_the_copies_that_safety_needs(faults: int, copies: int) -> None:
    """Nobody wants them, and links have room for one bundle at a time: catching up must not forget the first hops."""
    tree = Tree(LINE, {"p": "b0"}, seed=3, options=ResproutOptions(faults_tolerated=faults), window=1)
    tree.start()
    tree.run()
    for n in range(10):
        tree.ask("p", PublishRequest(f"t{n}", b""))
    tree.run()
    brokers = [machine for machine in tree.machines.values() if isinstance(machine, ResproutBroker)]
    assert [machine.parts.log.next_no for machine in brokers] == [10 if place < copies else 0 for place in range(3)]
    check_at_rest(tree)


def test_messages_without_attributes_meet_conditions_about_what_is_missing() -> None:
    tree = tree_of({"p": "b0", "s": "b2", "near": "b0"})
    for client in ("s", "near"):
        tree.ask(client, SubscribeRequest("t", "x is null"))
    tree.run()
    tree.ask_together("p", publications(rows(None, None)))
    tree.ask_together("p", publications(rows(1, None)))
    tree.run()
    for client in ("s", "near"):
        assert [m.seq for m in tree.delivered[client]] == [1, 2, 4]
    check_at_rest(tree)


def test_two_conditions_of_one_subscriber_pick_together_and_once() -> None:
    tree = tree_of({"p": "b0", "s": "b2"})
    tree.ask("s", SubscribeRequest("t", "x > 5"))
    tree.ask("s", SubscribeRequest("t", "x in (1, 7)"))
    tree.run()
    tree.ask_together("p", publications(rows(1, 2, 7, 8)))
    tree.run()
    assert payloads(tree.delivered["s"]) == [b"1", b"3", b"4"]
    check_at_rest(tree)


def test_a_picked_bundle_waits_for_room_like_any_other() -> None:
    tree = Tree(LINE, {"p": "b0", "s": "b2"}, seed=1, window=200)
    tree.start()
    tree.ask("s", SubscribeRequest("t", "x > 5"))
    tree.run()
    for _ in range(10):
        tree.ask_together("p", publications(rows(9, 1, 9)))
    tree.run()
    assert [m.seq for m in tree.delivered["s"]] == [n for n in range(1, 31) if n % 3 != 2]
    check_at_rest(tree)


def test_a_publication_reaches_the_subscribers_of_every_topic_that_its_keys_name_once() -> None:
    homes = {"p": "b1", "t": "b0", "u": "b2", "both": "b2", "v": "b0", "prefix": "b0"}
    tree = tree_of(homes)
    for client, filters in {"t": ["t"], "u": ["u/x"], "both": ["u/+", "t"], "v": ["v"], "prefix": ["u"]}.items():
        for wanted in filters:
            tree.ask(client, SubscribeRequest(wanted))
    tree.run()
    tree.ask("p", PublishRequest("t", b"1", keys=("k", "u/x#k", "t#l")))
    tree.ask("p", PublishRequest("t", b"2", keys=("k",)))
    tree.ask("p", PublishRequest("w", b"3", keys=("v#k",)))
    tree.run()
    assert payloads(tree.delivered["t"]) == payloads(tree.delivered["both"]) == [b"1", b"2"]
    assert payloads(tree.delivered["u"]) == [b"1"]
    assert payloads(tree.delivered["v"]) == [b"3"]
    assert tree.delivered["prefix"] == []
    assert tree.delivered["u"][0].topic == "t" and tree.delivered["u"][0].keys == ("k", "t#l", "u/x#k")
    check_at_rest(tree)


def test_a_condition_on_a_topic_that_a_key_names_looks_at_the_message() -> None:
    tree = tree_of({"p": "b0", "s": "b2"})
    tree.ask("s", SubscribeRequest("u", "x > 5"))
    tree.run()
    tree.ask_together("p", publications(rows(1, 9, None), keys=("u#k",)))
    tree.run()
    assert payloads(tree.delivered["s"]) == [b"2"]
    check_at_rest(tree)


# -- any tree, any conditions ----------------------------------------------------------------------------------------


def wants(predicates: list[Predicate], request: PublishRequest) -> bool:
    topics = topics_of(request.topic, request.keys)
    return any(p.matches(topic, request.attributes) for p in predicates for topic in topics)


def draw_publication(rng: random.Random, topic: str, keys: tuple[str, ...], guarantee: Guarantee) -> PublishRequest:
    attributes: dict[str, AttributeValue] = {}
    if rng.random() < 0.7:
        attributes["x"] = rng.randint(0, 10)
    if rng.random() < 0.5:
        attributes["kind"] = rng.choice("abc")
    return PublishRequest(topic, rng.randbytes(rng.choice((0, 5, 60))), guarantee, keys, attributes)


@pytest.mark.parametrize("block", range(cases(3, 6)))
def test_in_any_tree_every_subscriber_gets_exactly_what_it_asked_for(block: int) -> None:
    for seed in range(block * 8, block * 8 + 8):
        rng = random.Random(f"content {seed}")
        names = [f"b{i}" for i in range(rng.randint(1, 6))]
        parents = {name: names[rng.randrange(i)] if i else None for i, name in enumerate(names)}
        homes = {f"c{i}": rng.choice(names) for i in range(rng.randint(2, 5))}
        options = ResproutOptions(faults_tolerated=rng.randint(0, 2), log_bytes=rng.choice((4096, 1 << 20)))
        tree = Tree(parents, homes, seed=seed, options=options, window=rng.choice((300, 1 << 20)))
        tree.start()
        predicates: dict[str, list[Predicate]] = {}
        for client in homes:
            filters = rng.sample(("t", "u", "t/+", "#", "+", "u/#"), rng.randint(0, 3))
            asked = [(wanted, rng.choice(CONDITIONS)) for wanted in filters]
            predicates[client] = [parse_predicate(*pair) for pair in asked]
            for pair in asked:
                tree.ask(client, SubscribeRequest(*pair))
        tree.run()
        for client, expected in predicates.items():
            assert sum(isinstance(news, SubscriptionConfirmed) for news in tree.news[client]) == len(expected)
        for _ in range(30):
            topic, guarantee = rng.choice(("t", "u", "t/a", "v")), rng.choice(list(Guarantee))
            keys = rng.choice(((), ("k",), ("u#k",), ("k", "u/z#l")))
            together = [draw_publication(rng, topic, keys, guarantee) for _ in range(rng.choice((1, 1, 4, 12)))]
            tree.ask_together(rng.choice(list(homes)), together)
            for _ in range(rng.choice((0, 2, 10))):
                tree.one()
        tree.run()
        check_exactly(tree, predicates)
        check_orders(tree)
        check_at_rest(tree)


def check_exactly(tree: Tree, predicates: dict[str, list[Predicate]]) -> None:
    requests: dict[tuple[str, str, int], PublishRequest] = {}
    asked: dict[str, list[PublishRequest]] = {client: [] for client in predicates}
    for client, kind, what in tree.history:
        if kind == "asked" and isinstance(what, PublishRequest):
            asked[client].append(what)
        elif kind == "told" and isinstance(what, Published):
            requests[client, what.stream, what.seq] = asked[client].pop(0)
    for client, wanted in predicates.items():
        got = {(m.publisher, m.stream, m.seq): m for m in tree.delivered[client]}
        assert got.keys() == {id for id, request in requests.items() if wants(wanted, request)}, client
        for id, message in got.items():
            request = requests[id]
            assert (message.payload, message.attributes) == (request.payload, dict(request.attributes))
            assert (message.topic, message.guarantee) == (request.topic, request.guarantee)


# -- totals ------------------------------------------------------------------------------------------------------------


def test_a_total_reaches_exactly_those_who_asked_for_it_with_its_place_in_the_order() -> None:
    tree = tree_of({"p": "b0", "s": "b2", "some": "b2", "none": "b1"})
    tree.ask("s", SubscribeRequest("t"))
    tree.ask("some", SubscribeRequest("t", "x > 5"))
    tree.ask("none", SubscribeRequest("u"))
    tree.run()
    tree.ask_together("p", publications(rows(1, 9), guarantee=Guarantee.TOTAL, keys=("k",)))
    tree.ask("p", PublishRequest("t", b"3", Guarantee.CAUSAL, ("k",)))
    tree.run()
    assert payloads(tree.delivered["s"]) == [b"1", b"2", b"3"]
    assert payloads(tree.delivered["some"]) == [b"2"]
    assert tree.delivered["none"] == []
    first, second, other = (m.tseq for m in tree.delivered["s"])
    assert 0 <= first < second and other == -1, "also in one bundle"
    assert [m.tseq for m in tree.delivered["some"]] == [second]
    check_at_rest(tree)
