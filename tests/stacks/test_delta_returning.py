"""Clients of dead brokers of `delta` miss nothing: what is kept for them, and how it comes to them."""

from typing import Any

import pytest

from resprout.core.contract import Received
from resprout.edge.messages import Delivery, HeldSubscription, Serving, Taken
from resprout.scenario.model import FaultKind, FaultSpec
from resprout_lab.blocks.serving import ReceiptsDue
from resprout_lab.delta import returning
from resprout_lab.delta.messages import RoutedClaim, RoutedHandover, RoutedPublication, RoutedUnsubscription
from resprout_lab.delta.returning import KeptPublications, ReturnOver
from tests.stacks.delta_net import DeltaNet, chain, crash, reading, recover, row, rules, strike

WISH = (HeldSubscription(1, "t", None, ()),)


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["b0", "b2", "b4"])
@pytest.mark.parametrize("host", [False, True], ids=["refused", "silent"])
def test_a_client_misses_nothing_when_its_broker_dies(name: str, host: bool) -> None:
    fault = FaultSpec(1_400_000, FaultKind.CRASH, nodes=(name,), host=host)
    assert rules(strike(row(operations=100), fault)) == set()


def test_a_client_misses_nothing_when_two_brokers_in_a_row_die() -> None:
    scenario = row(operations=100, brokers=6, options="delta = 2")
    assert rules(strike(scenario, crash("b4", "b5"))) == set()


@pytest.mark.parametrize("after_us", [1, 300_000])
def test_a_client_misses_nothing_when_its_broker_returns(after_us: int) -> None:
    scenario = strike(row(operations=100), crash("b4"), recover("b4", at_us=1_200_000 + after_us))
    assert rules(scenario) == set()


def test_without_what_is_kept_the_judge_finds_what_clients_of_a_dead_broker_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KeptPublications, "__iter__", lambda self: iter(()))
    silent = FaultSpec(1_400_000, FaultKind.CRASH, nodes=("b4",), host=True)
    assert rules(strike(row(operations=100), silent)) == {"lost"}


# -- by hand -----------------------------------------------------------------------------------------------------------


def kept(net: DeltaNet, broker: str) -> list[Any]:
    return [transit.message.key for transit in net.brokers[broker].kept_publications]


def take(net: DeltaNet, client: str, broker: str) -> None:
    deliveries = len([one for one in net.told[client] if isinstance(one, Delivery)])
    net.step(broker, Received(client, Taken(deliveries)))


def tell(net: DeltaNet) -> None:
    """What brokers tell each other within 10 ms, until nothing is left to tell."""
    for _ in range(10):
        for name in net.brokers:
            net.fire(name, ReceiptsDue())
        net.settle()


def test_a_publication_is_kept_until_all_readers_have_taken_it() -> None:
    net = reading("b0", "b1", "b2")
    net.publish("p")
    net.settle()
    take(net, "cb0", "b0")
    take(net, "cb1", "b1")
    tell(net)
    assert [len(kept(net, name)) for name in ("b0", "b1", "b2")] == [1, 1, 1]
    take(net, "cb2", "b2")
    tell(net)
    assert [len(kept(net, name)) for name in ("b0", "b1", "b2")] == [0, 0, 0]


def test_a_client_of_a_dead_broker_is_given_what_it_has_not_taken_and_what_came_since() -> None:
    net = reading("b0", "b1", "b2")
    for _ in range(3):
        net.publish("p")
    net.settle()
    net.crash("b2")
    net.publish("p")
    net.settle()
    before = len(net.read("cb2"))
    net.attach("cb2", "b1", tried=("b2",), home=1, subscriptions=WISH)
    net.settle()
    assert net.read("cb2")[before:] == [("p", 1), ("p", 2), ("p", 3), ("p", 4)]
    net.publish("p")
    net.settle()
    assert net.read("cb2")[before:] == [("p", 1), ("p", 2), ("p", 3), ("p", 4), ("p", 5)]
    assert [one.resumed for one in net.told["cb2"] if isinstance(one, Serving)] == [True, True]
    assert len(net.between("b1", "b0", RoutedClaim)) == 1


def test_what_was_published_at_a_dead_broker_and_read_there_only_is_at_a_neighbour() -> None:
    net = DeltaNet(chain("b0", "b1", "b2"))
    net.attach("p", "b0")
    net.attach("r", "b0")
    net.subscribe("r")
    net.settle()
    net.publish("p")
    net.settle()
    assert net.read("r") == [("p", 1)] and net.safe("p") == 1
    net.crash("b0")
    net.settle()
    net.attach("r", "b1", tried=("b0",), home=1, subscriptions=WISH)
    net.settle()
    assert net.read("r") == [("p", 1), ("p", 1)], "it has not said that it took the first one"


def test_what_others_keep_comes_to_the_new_broker_of_a_client_and_is_shown_once() -> None:
    """b2 and b3 die together. b1 has what b3's reader lacks; the reader goes to b4, which never had it."""
    net = DeltaNet({"b0": None, "b1": "b0", "b2": "b1", "b3": "b2", "b4": "b2"}, delta=2)
    for client, broker in (("p", "b0"), ("r", "b3")):
        net.attach(client, broker)
    net.subscribe("r")
    net.settle()
    for _ in range(3):
        net.publish("p")
    net.settle()
    net.crash("b2", "b3")
    net.settle()
    net.attach("r", "b4", tried=("b3",), home=1, subscriptions=WISH)
    net.settle()
    assert net.read("r") == [("p", no) for no in (1, 2, 3, 1, 2, 3)]
    answers = [one.bundle.first for one in net.between("b1", "b4", RoutedHandover)]
    assert answers == [1, 2, 3, 1, 2, 3], "of b1, and of b0, which has them as well"


@pytest.mark.parametrize(("delta", "copies"), [(0, []), (1, ["b1"]), (2, ["b1", "b2"]), (3, ["b1", "b2", "b3"])])
def test_a_publication_that_nobody_reads_elsewhere_goes_to_delta_others(delta: int, copies: list[str]) -> None:
    net = DeltaNet(chain("b0", "b1", "b2", "b3", "b4"), delta=delta)
    net.attach("p", "b0")
    net.publish("p")
    net.settle()
    assert [to for _, to, message in net.said if isinstance(message, RoutedPublication)] == copies
    assert net.safe("p") == 1


def test_a_client_is_told_when_more_was_owed_to_it_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returning, "OWED_KEPT", 2)
    net = reading("b0", "b1", "b2")
    for _ in range(3):
        net.publish("p")
    net.settle()
    net.crash("b2")
    net.settle()
    net.attach("cb2", "b1", tried=("b2",), home=1, subscriptions=WISH)
    net.settle()
    assert [one.resumed for one in net.told["cb2"] if isinstance(one, Serving)] == [True, False]


def test_a_reader_that_takes_nothing_does_not_make_brokers_keep_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returning, "KEPT_MAX", 2)
    net = reading("b0", "b1", "b2")
    for _ in range(5):
        net.publish("p")
    net.settle()
    tell(net)
    assert [[key[-1] for key in kept(net, name)] for name in ("b0", "b1", "b2")] == [[4, 5], [4, 5], [4, 5]]
    net.crash("b2")
    net.settle()
    net.attach("cb2", "b1", tried=("b2",), home=1, subscriptions=WISH)
    net.settle()
    assert [one.resumed for one in net.told["cb2"] if isinstance(one, Serving)] == [True, False]


def test_a_client_that_comes_too_late_is_told_and_what_its_broker_wanted_is_withdrawn() -> None:
    net = reading("b0", "b1", "b2")
    net.publish("p")
    net.settle()
    net.crash("b2")
    net.settle()
    net.start("b2")
    net.settle()
    net.publish("p")
    net.settle()
    take(net, "cb0", "b0")
    take(net, "cb1", "b1")
    tell(net)
    assert len(kept(net, "b2")) == 1, "for clients of its earlier life"
    for name, life in (("b1", ReturnOver("b2", 1)), ("b2", ReturnOver("b2", 0))):
        net.fire(name, life)
        net.settle()
    tell(net)
    assert kept(net, "b2") == []
    net.attach("cb2", "b2", tried=("b2",), home=1, subscriptions=WISH)
    net.settle()
    assert [one.resumed for one in net.told["cb2"] if isinstance(one, Serving)] == [True, False]
    assert net.between("b2", "b1", RoutedUnsubscription)[0].id.number == 0, "all of its earlier lives"


def test_a_client_is_served_at_once_where_nobody_is_left_to_ask() -> None:
    net = reading("b0", "b1")
    net.publish("p")
    net.settle()
    net.crash("b1")
    net.settle()
    net.attach("cb1", "b0", tried=("b1",), home=1, subscriptions=WISH)
    assert net.read("cb1") == [("p", 1), ("p", 1)]
