"""Nothing waits at its origin: what comes behind a total is carried as one, and `eventual` waits for nothing."""

import random
from collections.abc import Callable, Sequence

import pytest

from resprout.core.bundle import Bundle, pack_payloads, to_record
from resprout.core.contract import Effect, Forget, LinkUp, Persist, Received, Recovered
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message_fields import Mark
from resprout.edge.messages import Attend, Publish
from resprout.edge.requests import PublishRequest, ReceiptTurned, SubscribeRequest
from resprout.order.messages import Closed, Lock, Submit
from resprout.order.totals.pending import UNORDERED_TOTALS
from resprout.stacks.resprout import ResproutOptions
from resprout.stacks.resprout.total_delivery import HEAVY_BYTES
from tests.stacks.test_interleavings import check_at_rest, check_nothing_lost, check_orders, check_totals
from tests.stacks.tree import Tree

TOTAL, CAUSAL, FIFO, EVENTUAL = Guarantee.TOTAL, Guarantee.CAUSAL, Guarantee.FIFO, Guarantee.EVENTUAL


class Forgetful(Tree):
    """Whatever is written to a disk is gone."""

    def perform(self, name: str, effects: Sequence[Effect]) -> None:
        super().perform(name, [effect for effect in effects if not isinstance(effect, Persist | Forget)])


def pair(durable: bool = False) -> Tree:
    """A root with one child, a publisher and another client there, and a subscriber at each."""
    homes = {"p": "b1", "q": "b1", "near": "b1", "far": "b0"}
    tree = Forgetful({"b0": None, "b1": "b0"}, homes, seed=1, options=ResproutOptions(durable=durable))
    tree.start()
    tree.run()
    for name in ("near", "far"):
        tree.ask(name, SubscribeRequest("t"))
    tree.run()
    return tree


def publish(tree: Tree, name: str, guarantee: Guarantee, *keys: str, payload: bytes = b"") -> None:
    tree.ask(name, PublishRequest("t", payload or guarantee.label.encode(), guarantee, keys))
    arrive(tree, name, "b1")


def arrive(tree: Tree, sender: str, receiver: str) -> None:
    """Everything that is under way from one to the other."""
    while tree.streams.between(sender, receiver):
        tree.arrive(sender, receiver)


def until(tree: Tree, sender: str, receiver: str, kind: type) -> None:
    while not isinstance(tree.streams.between(sender, receiver)[0][1], kind):
        tree.arrive(sender, receiver)


def waiting(tree: Tree, name: str, broker: str = "b1") -> int:
    return len(tree.brokers[broker].parts.sessions.all[name].waiting)


def under_way(tree: Tree, name: str, broker: str = "b1") -> list[Guarantee]:
    return [bundle.guarantee for bundle in tree.brokers[broker].parts.totals.backlog.of(name)]


def test_what_follows_a_total_rides_with_it_and_a_clients_queue_does_not_stop() -> None:
    tree = pair()
    for guarantee in (CAUSAL, TOTAL, CAUSAL, FIFO, TOTAL):
        publish(tree, "p", guarantee, "k")
    assert waiting(tree, "p") == 0
    assert under_way(tree, "p") == [TOTAL, CAUSAL, FIFO, TOTAL], "the first came before any total"
    tree.run()
    for name in ("near", "far"):
        assert [m.guarantee for m in tree.delivered[name]] == [CAUSAL, TOTAL, CAUSAL, FIFO, TOTAL]
        assert [m.tseq >= 0 for m in tree.delivered[name]] == [False, True, False, False, True], "a place for totals"
    turned = [news for news in tree.news["p"] if isinstance(news, ReceiptTurned)]
    assert {news.receipt for news in turned if news.last == 5} == set(ReceiptLevel), "with all its receipts"
    publish(tree, "p", CAUSAL, "k")
    assert under_way(tree, "p") == [], "and afterwards nothing is carried"
    tree.run()
    check_at_rest(tree)


def test_what_names_a_key_that_a_total_holds_is_carried_and_nothing_else_is() -> None:
    tree = pair()
    publish(tree, "p", TOTAL, "k")
    arrive(tree, "b1", "b0")
    until(tree, "b0", "b1", Lock)
    publish(tree, "q", CAUSAL, "k")
    assert under_way(tree, "q") == [], "not active here yet"
    tree.arrive("b0", "b1")
    publish(tree, "q", CAUSAL, "other")
    assert under_way(tree, "q") == []
    publish(tree, "q", FIFO, "k")
    assert under_way(tree, "q") == [FIFO]
    publish(tree, "q", FIFO, "other")
    assert under_way(tree, "q") == [FIFO, FIFO], "behind its own"
    tree.run()
    check_orders(tree)
    check_totals(tree)
    check_at_rest(tree)


def test_eventual_waits_neither_for_its_client_nor_for_a_key() -> None:
    tree = pair()
    publish(tree, "p", TOTAL, "k")
    arrive(tree, "b1", "b0")
    until(tree, "b0", "b1", Lock)
    tree.arrive("b0", "b1")
    publish(tree, "p", EVENTUAL, "k")
    publish(tree, "q", EVENTUAL, "k")
    assert waiting(tree, "p") == waiting(tree, "q") == 0
    sent = [type(message).__name__ for _, message in tree.streams.between("b1", "b0")]
    assert sent.count("Forward") == 2, "on their way, while the total is not delivered"
    tree.run()
    check_at_rest(tree)


def test_eventual_is_not_held_up_by_a_queue_that_has_no_room() -> None:
    tree = pair()
    for number in range(UNORDERED_TOTALS + 5):
        publish(tree, "p", TOTAL, f"k{number}")
    assert waiting(tree, "p") == 5
    publish(tree, "p", EVENTUAL)
    publish(tree, "q", TOTAL, "k1")
    assert waiting(tree, "p") == 5 and waiting(tree, "q") == 0, "others are not held back for it"
    tree.run()
    assert len(tree.delivered["far"]) == UNORDERED_TOTALS + 7
    check_orders(tree)
    check_at_rest(tree)


def test_a_client_goes_on_when_its_totals_have_places_and_does_not_wait_for_their_delivery() -> None:
    tree = Tree({"b0": None, "b1": "b0", "b2": "b0"}, {"p": "b1"}, seed=1)
    tree.start()
    tree.run()
    for number in range(UNORDERED_TOTALS + 5):
        publish(tree, "p", TOTAL, f"k{number}")
    assert waiting(tree, "p") == 5
    arrive(tree, "b1", "b0")
    arrive(tree, "b0", "b1")
    assert waiting(tree, "p") == 0, "b2 has closed nothing yet"
    assert len(under_way(tree, "p")) == UNORDERED_TOTALS + 5
    tree.run()
    check_at_rest(tree)


def test_what_is_heavy_waits_once_for_what_is_under_way_and_is_carried_if_that_was_in_vain() -> None:
    tree = pair()
    heavy = bytes(HEAVY_BYTES)
    publish(tree, "p", TOTAL, "k")
    publish(tree, "p", CAUSAL, payload=heavy)
    publish(tree, "p", FIFO)
    assert waiting(tree, "p") == 2 and under_way(tree, "p") == [TOTAL]
    tree.run()
    assert [m.guarantee for m in tree.delivered["far"]] == [TOTAL, CAUSAL, FIFO]
    assert len(tree.brokers["b1"].parts.totals.submissions.last.marks()) == 1
    check_at_rest(tree)


def test_what_is_heavy_waits_for_nothing_that_came_later() -> None:
    tree = Tree({"b0": None, "b1": "b0", "b2": "b0"}, {"p": "b1", "q": "b1", "far": "b2"}, seed=1)
    tree.start()
    tree.run()
    tree.ask("far", SubscribeRequest("t"))
    tree.run()
    for _ in range(2):
        publish(tree, "q", TOTAL, "k")
    arrive(tree, "b1", "b0")
    until(tree, "b0", "b1", Lock)
    tree.arrive("b0", "b1")
    publish(tree, "p", CAUSAL, "k", payload=bytes(HEAVY_BYTES))
    assert waiting(tree, "p") == 1 and under_way(tree, "p") == []
    arrive(tree, "b0", "b1")
    assert waiting(tree, "p") == 1, "the second total is known now, and neither is closed at b2"
    arrive(tree, "b0", "b2")
    arrive(tree, "b1", "b0")
    until(tree, "b2", "b0", Closed)
    tree.arrive("b2", "b0")
    arrive(tree, "b0", "b1")
    assert waiting(tree, "p") == 0 and under_way(tree, "p") == [CAUSAL], "the first is delivered, the second is not"
    tree.run()
    assert [m.guarantee for m in tree.delivered["far"]] == [TOTAL, TOTAL, CAUSAL]
    check_at_rest(tree)


def carried(seq: int = 1, payload: bytes = b"plain") -> Bundle:
    return Bundle("p", 1, seq, 1, 0, "t", (), CAUSAL, b"", pack_payloads([payload]))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_carried_by_one_broker_and_published_by_another_is_delivered_once(seed: int) -> None:
    """A client said it to a broker that carried it, and then to another that had no reason to."""
    tree = Tree({"b0": None, "b1": "b0", "b2": "b0"}, {"p": "b1", "near": "b1", "far": "b2"}, seed=seed)
    tree.start()
    tree.run()
    for name in ("near", "far"):
        tree.ask(name, SubscribeRequest("t"))
    tree.run()
    rng = random.Random(seed)
    twice: list[Callable[[], None]] = [
        lambda: tree.forge("b2", "b0", Submit(carried())),
        lambda: tree.ask("p", PublishRequest("t", b"plain", CAUSAL)),
    ]
    rng.shuffle(twice)
    for say in twice:
        say()
        for _ in range(rng.randint(0, 12)):
            tree.one()
    tree.ask("p", PublishRequest("t", b"later", CAUSAL))
    tree.run()
    for name in ("near", "far"):
        assert [m.payload for m in tree.delivered[name]] == [b"plain", b"later"]
    check_at_rest(tree)


def test_a_client_that_has_delivered_a_total_elsewhere_publishes_behind_it() -> None:
    tree = pair()
    publish(tree, "p", TOTAL, "k")
    arrive(tree, "b1", "b0")
    until(tree, "b0", "b1", Lock)
    tree.arrive("b0", "b1")
    broker = tree.brokers["b1"]
    broker.step(LinkUp("m", "client", 1, 1 << 20), 0)
    broker.step(Received("m", Attend(9, received=(Mark("p", "ordered", 1, 1),))), 0)
    made = Bundle("m", 1, 1, 1, 0, "t", (), CAUSAL, b"", pack_payloads([b""]))
    broker.step(Received("m", Publish(made)), 0)
    assert broker.parts.totals.is_under_way(made), "it depends on what is not delivered here"


def test_what_a_client_says_again_behind_a_total_that_overtook_it_waits_for_that() -> None:
    tree = pair()
    tree.forge("b0", "b1", Lock(0, 1, Bundle("p", 1, 2, 1, 5, "t", (), TOTAL, b"", pack_payloads([b""]))))
    arrive(tree, "b0", "b1")
    publish(tree, "p", CAUSAL)
    assert waiting(tree, "p") == 1 and under_way(tree, "p") == [TOTAL], "ordered behind it, it would be dropped"
    tree.forge("b0", "b1", Closed("p", 1, 2, 9))
    arrive(tree, "b0", "b1")
    assert waiting(tree, "p") == 0, "it is known now"


def test_what_a_disk_brings_back_keeps_behind_the_total_that_holds_its_key() -> None:
    tree = pair(durable=True)
    publish(tree, "p", TOTAL, "k")
    arrive(tree, "b1", "b0")
    until(tree, "b0", "b1", Lock)
    tree.arrive("b0", "b1")
    found = Bundle("x", 1, 1, 1, 0, "t", ("k",), CAUSAL, b"", pack_payloads([b"kept"]))
    tree.step("b1", Recovered((to_record(found),)))
    assert tree.brokers["b1"].parts.totals.is_under_way(found)
    tree.run()
    assert [m.payload for m in tree.delivered["far"]] == [b"total", b"kept"]


def test_what_carries_bundles_keeps_to_the_window() -> None:
    least: dict[tuple[str, str], int] = {}

    class Watched(Tree):
        def perform(self, name: str, effects: Sequence[Effect]) -> None:
            super().perform(name, effects)
            for way in (("b0", "b1"), ("b1", "b0")):
                if way in self.room:
                    least[way] = min(least.get(way, 1 << 20), self.room[way])

    homes = {f"p{i}": f"b{i % 2}" for i in range(6)}
    tree = Watched({"b0": None, "b1": "b0"}, homes, seed=3, window=2_000)
    tree.start()
    tree.run()
    tree.ask("p0", SubscribeRequest("t"))
    tree.run()
    for number in range(60):  # no two of them fit into one bundle
        keys = ("k", f"k{number}")
        tree.ask(f"p{number % 6}", PublishRequest("t", bytes(900), TOTAL if number % 3 else CAUSAL, keys))
    tree.run()
    cost = carried(payload=bytes(900)).cost
    assert min(least.values()) > -cost, "only the last one may exceed it"
    assert len(tree.delivered["p0"]) == 60
    check_orders(tree)
    check_nothing_lost(tree)
    check_at_rest(tree)
