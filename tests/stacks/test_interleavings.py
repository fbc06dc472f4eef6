"""The default stack under random interleavings of FIFO links, without a world around it."""

import random
from collections.abc import Iterable, Sequence

import pytest

from resprout.core.bundle import pairs_of, topics_of
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message import Message
from resprout.edge.requests import (
    ClientRequest,
    Published,
    PublishRequest,
    ReceiptTurned,
    Refused,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    UnsubscribeRequest,
)
from resprout.filters.predicate import topic_matches
from resprout.stacks.resprout import ResproutOptions
from tests.soak import cases
from tests.stacks.tree import Tree

TOPICS = ("a", "a/b", "a/c", "d")
FILTERS = ("a", "a/b", "a/#", "+", "#", "d", "a/+")
KEYS: tuple[tuple[str, ...], ...] = ((), ("k",), ("l",), ("k", "l"), ("k", "d#k"))
ORDERED = (Guarantee.FIFO, Guarantee.CAUSAL)
Id = tuple[str, str, int]


def draw_tree(seed: int, **extra: int) -> Tree:
    rng = random.Random(f"tree {seed}")
    brokers = [f"b{i}" for i in range(rng.randint(1, 7))]
    parents = {name: brokers[rng.randrange(i)] if i else None for i, name in enumerate(brokers)}
    homes = {f"c{i}": rng.choice(brokers) for i in range(rng.randint(1, 5))}
    options = ResproutOptions(
        faults_tolerated=rng.randint(0, 3) if "faults" not in extra else extra["faults"],
        log_bytes=extra.get("log_bytes", 1 << 20),
        root_ordered_after=extra.get("root_ordered_after", 0),
    )
    tree = Tree(
        parents, homes, seed=seed, options=options, window=extra.get("window", rng.choice((200, 2_000, 1 << 20)))
    )
    tree.start()
    return tree


def play(tree: Tree, seed: int, actions: int, totals: int = 1, crashes: Sequence[str] = ()) -> None:
    """Random subscriptions and publications, with reactions, while messages are under way. `totals`: how often one
    is drawn, where every other guarantee is drawn once. `crashes`: brokers that die at some moment."""
    rng = random.Random(f"play {seed}")
    subscribed: dict[str, list[str]] = {name: [] for name in tree.delivered}
    clients = list(tree.delivered)
    count = 0

    def publication(name: str) -> PublishRequest:
        nonlocal count
        count += 1
        guarantee = rng.choice((Guarantee.EVENTUAL, *ORDERED, *(() if totals == 0 else [Guarantee.TOTAL] * totals)))
        return PublishRequest(rng.choice(TOPICS), b"%d" % count, guarantee, rng.choice(KEYS))

    def react(name: str, message: Message) -> list[ClientRequest]:
        return [publication(name)] if rng.random() < 0.15 and count < 3 * actions else []

    tree.react = react
    moments = {rng.randrange(actions): name for name in crashes}
    for number in range(actions):
        if number in moments:
            tree.crash(moments[number])
        name = rng.choice(clients)
        roll = rng.random()
        if roll < 0.2:
            wanted = rng.choice(FILTERS)
            if wanted not in subscribed[name]:
                subscribed[name].append(wanted)
                tree.ask(name, SubscribeRequest(wanted))
        elif roll < 0.27 and subscribed[name]:
            ended = subscribed[name].pop(rng.randrange(len(subscribed[name])))
            tree.ask(name, UnsubscribeRequest(ended))
        else:
            tree.ask(name, publication(name))
        for _ in range(rng.choice((0, 1, 3, 20))):
            tree.one()
    tree.run()


def published(tree: Tree) -> dict[Id, PublishRequest]:
    """Publications by identity, in the order they were made."""
    asked: dict[str, list[PublishRequest]] = {}
    found: dict[Id, PublishRequest] = {}
    for client, kind, what in tree.history:
        if kind == "asked" and isinstance(what, PublishRequest):
            asked.setdefault(client, []).append(what)
        elif kind == "told" and isinstance(what, Published):
            found[client, what.stream, what.seq] = asked[client].pop(0)
    assert not any(asked.values()), "every publication got its number"
    return found


def identity(message: Message) -> Id:
    return (message.publisher, message.stream, message.seq)


def causal_pasts(tree: Tree) -> dict[Id, set[Id]]:
    """From the definition: what its publisher had published or delivered, transitively; `eventual` is in no chain."""
    known: dict[str, set[Id]] = {name: set() for name in tree.delivered}
    pasts: dict[Id, set[Id]] = {}
    for client, kind, what in tree.history:
        if kind == "told" and isinstance(what, Published):
            pasts[client, what.stream, what.seq] = set(known[client])
            if what.stream == "ordered":
                known[client].add((client, what.stream, what.seq))
        elif kind == "delivered" and what.stream == "ordered":
            known[client] |= {identity(what)} | pasts[identity(what)]
    return pasts


def check_orders(tree: Tree) -> None:
    pasts = causal_pasts(tree)
    for client, messages in tree.delivered.items():
        ids = [identity(m) for m in messages]
        assert len(ids) == len(set(ids)), f"{client} got something twice"
        assert [m.position for m in messages] == list(range(len(messages)))
        place = {id: i for i, id in enumerate(ids)}
        for message in messages:
            if message.guarantee is Guarantee.EVENTUAL:
                continue
            for past in pasts[identity(message)]:
                if past[1] == "ordered" and past in place and message.guarantee is not Guarantee.FIFO:
                    assert place[past] < place[identity(message)], (client, past, identity(message))
                if past[0] == message.publisher and past[1] == "ordered" and past in place:
                    assert place[past] < place[identity(message)], (client, past, identity(message))


def check_totals(tree: Tree) -> None:
    """Every total stands between the same publications on its keys for all, and all totals have one order."""
    places = {client: {identity(m): m for m in messages} for client, messages in tree.delivered.items()}
    everything = {
        id: message
        for messages in places.values()
        for id, message in messages.items()
        if message.guarantee is not Guarantee.EVENTUAL
    }
    totals = [id for id, message in everything.items() if message.guarantee is Guarantee.TOTAL]
    for total in totals:
        named = set(pairs_of(everything[total].topic, everything[total].keys))
        for other, message in everything.items():
            if other != total and named & set(pairs_of(message.topic, message.keys)):
                sides = {
                    messages[other].position < messages[total].position
                    for messages in places.values()
                    if other in messages and total in messages
                }
                assert len(sides) <= 1, f"{other} is before {total} for one and after it for another"
    owners: dict[int, object] = {}
    for id in totals:
        (number,) = {messages[id].tseq for messages in places.values() if id in messages}
        assert owners.setdefault(number, id) == id, "a place belongs to one total"


def check_nothing_lost(tree: Tree) -> None:
    """Whoever was confirmed before a publication, and had not asked to end, has it."""
    requests = published(tree)
    confirmed: dict[str, set[str]] = {name: set() for name in tree.delivered}
    owed: list[tuple[str, Id]] = []
    for client, kind, what in tree.history:
        if kind == "told" and isinstance(what, SubscriptionConfirmed):
            confirmed[client].add(what.filter)
        elif kind == "asked" and isinstance(what, UnsubscribeRequest):
            confirmed[client].discard(what.filter)
        elif kind == "told" and isinstance(what, Published):
            id = (client, what.stream, what.seq)
            for subscriber, filters in confirmed.items():
                if _matching(filters, requests[id]):
                    owed.append((subscriber, id))
    got = {name: {identity(m) for m in messages} for name, messages in tree.delivered.items()}
    withdrawn = {
        (c, what.filter) for c, kind, what in tree.history if kind == "asked" and isinstance(what, UnsubscribeRequest)
    }
    for subscriber, id in owed:
        if any((subscriber, f) in withdrawn for f in _matching(FILTERS, requests[id])):
            continue  # it may have ended while the publication was under way
        assert id in got[subscriber], (subscriber, id, requests[id].topic)


def _matching(filters: Iterable[str], request: PublishRequest) -> list[str]:
    topics = topics_of(request.topic, request.keys)
    return [filter for filter in filters if any(topic_matches(filter, topic) for topic in topics)]


def check_at_rest(tree: Tree) -> None:
    """Every promise is kept, nobody was cut off, and nothing is left over."""
    assert tree.closed == []
    check_receipts(tree)
    check_forgotten(tree)


def check_receipts(tree: Tree) -> None:
    for client, news in tree.news.items():
        assert not [n for n in news if isinstance(n, Refused)]
        turned: dict[tuple[str, ReceiptLevel], set[int]] = {}
        for n in news:
            if isinstance(n, ReceiptTurned):
                numbers = turned.setdefault((n.stream, n.receipt), set())
                assert numbers.isdisjoint(range(n.first, n.last + 1)), "each is told once"
                numbers.update(range(n.first, n.last + 1))
        for stream in ("eventual", "ordered"):
            last = max((n.seq for n in news if isinstance(n, Published) and n.stream == stream), default=0)
            for receipt in ReceiptLevel:
                assert turned.get((stream, receipt), set()) == set(range(1, last + 1)), (client, stream, receipt)
        asked = [w for c, k, w in tree.history if c == client and k == "asked"]
        assert sum(isinstance(w, UnsubscribeRequest) for w in asked) == sum(
            isinstance(n, SubscriptionEnded) for n in news
        )


def check_forgotten(tree: Tree) -> None:
    for name, machine in tree.brokers.items():
        parts = machine.parts
        assert parts.log.entries == {}, name
        assert parts.log.bytes_held == 0 and parts.log.local_bytes == 0
        assert len(parts.total_acks) == 0 and parts.totals.pending == 0 and not parts.pressure.holding
        for link in parts.links.values():
            assert link.sent.entries == {} and link.arrived.entries == {} and link.held_bytes == 0
            assert link.open and link.cursor is None


@pytest.mark.parametrize("block", range(cases(2, 8)))
def test_any_interleaving_keeps_order_loses_nothing_and_leaves_nothing_behind(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        tree = draw_tree(seed)
        play(tree, seed, actions=60, totals=seed % 3)
        check_orders(tree)
        check_totals(tree)
        check_nothing_lost(tree)
        check_at_rest(tree)


@pytest.mark.parametrize("seed", range(cases(6, 12)))
def test_a_full_log_holds_its_sources_back_and_everything_still_arrives(seed: int) -> None:
    tree = draw_tree(seed, log_bytes=4096, window=300)
    play(tree, seed, actions=150)
    check_orders(tree)
    check_totals(tree)
    check_nothing_lost(tree)
    check_at_rest(tree)


def test_a_client_that_vanishes_is_owed_nothing_and_stalls_nobody() -> None:
    tree = Tree({"b0": None, "b1": "b0"}, {"p": "b0", "s": "b1", "gone": "b1"}, seed=3)
    tree.start()
    tree.ask("s", SubscribeRequest("t"))
    tree.ask("gone", SubscribeRequest("#"))
    tree.run()
    tree.ask("p", PublishRequest("t", b"1"))
    tree.lose("gone")
    for n in range(2, 20):
        tree.ask("p", PublishRequest("t", b"%d" % n))
        tree.ask("p", PublishRequest("only-for-gone", b""))
    tree.run()
    assert [m.payload for m in tree.delivered["s"]] == [b"%d" % n for n in range(1, 20)]
    del tree.news["gone"], tree.delivered["gone"]
    check_at_rest(tree)
